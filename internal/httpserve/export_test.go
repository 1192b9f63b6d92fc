package httpserve

// MaxStrangers is how many addresses are remembered.
const MaxStrangers = maxStrangers

// Len is how many addresses are remembered.
func (s *Strangers) Len() int { return s.addrs.order.Len() }
