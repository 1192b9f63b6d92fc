package config

// maxCount bounds settings that count things.
const maxCount = 1_000_000_000

// quotaSettings are what each tenant may have. The operator can give a tenant other ones: these are for the rest.
func quotaSettings() []setting {
	const overridden = " A tenant's own quota takes its place."
	return []setting{
		{
			key: "quota.sandboxes", def: "0", allowed: "a whole number, or 0 for no limit",
			doc:     "Most sandboxes that a tenant may have at once." + overridden,
			binding: whole(func(c *Config) *int { return &c.Quota.Sandboxes }, 0, maxCount),
		}, {
			key: "quota.creates_per_minute", def: "0", allowed: "a whole number, or 0 for no limit",
			doc:     "Most sandboxes that a tenant may begin within a minute, those counted that failed or are deleted since." + overridden,
			binding: whole(func(c *Config) *int { return &c.Quota.CreatesPerMinute }, 0, maxCount),
		}, {
			key: "quota.vcpus", def: "0", allowed: "a number, or 0 for no limit",
			doc:     "Most processors of a tenant's running sandboxes together." + overridden,
			binding: fraction(func(c *Config) *float64 { return &c.Quota.VCPUs }, func(v float64) bool { return v >= 0 && v <= maxCount }),
		}, {
			key: "quota.memory", def: "0", allowed: "a size such as 512M or 4G, or 0 for no limit",
			doc:     "Most memory of a tenant's running sandboxes together: the sum of their limits." + overridden,
			binding: size(func(c *Config) *Size { return &c.Quota.Memory }, atLeast(0)),
		}, {
			key: "quota.disk", def: "0", allowed: "a size such as 512M or 4G, or 0 for no limit",
			doc: "Most disk of a tenant's sandboxes together: the sum of their limits, so each must have one. On a host whose disk can't " +
				"enforce limits only 0 is allowed." + overridden,
			binding: size(func(c *Config) *Size { return &c.Quota.Disk }, atLeast(0)),
		}, {
			key: "quota.templates", def: "0", allowed: "a whole number, or 0 for no limit",
			doc:     "Most templates of its own that a tenant may have, each version counted." + overridden,
			binding: whole(func(c *Config) *int { return &c.Quota.Templates }, 0, maxCount),
		}, {
			key: "quota.template_size", def: "0", allowed: "a size such as 512M or 4G, or 0 for no limit",
			doc:     "Most bytes of a tenant's own templates together." + overridden,
			binding: size(func(c *Config) *Size { return &c.Quota.TemplateSize }, atLeast(0)),
		}, {
			key: "quota.checkpoints", def: "0", allowed: "a whole number, or 0 for no limit",
			doc:     "Most checkpoints that a tenant may have, of all its sandboxes, those counted that are deleted." + overridden,
			binding: whole(func(c *Config) *int { return &c.Quota.Checkpoints }, 0, maxCount),
		}, {
			key: "quota.checkpoint_size", def: "0", allowed: "a size such as 512M or 4G, or 0 for no limit",
			doc: "Most bytes that a tenant's sandboxes had written and its checkpoints have, together. On a host whose disk can't tell, " +
				"none are counted." + overridden,
			binding: size(func(c *Config) *Size { return &c.Quota.CheckpointSize }, atLeast(0)),
		}, {
			key: "quota.keys", def: "1000", allowed: "a whole number, or 0 for no limit",
			doc:     "Most API keys that a tenant may have, expired ones counted until they are forgotten." + overridden,
			binding: whole(func(c *Config) *int { return &c.Quota.Keys }, 0, maxCount),
		}, {
			key: "quota.execs", def: "0", allowed: "a whole number, or 0 for no limit",
			doc:     "Most execs of a tenant that may run at once, in all its sandboxes together." + overridden,
			binding: whole(func(c *Config) *int { return &c.Quota.Execs }, 0, maxCount),
		}, {
			key: "quota.requests_per_second", def: "200", allowed: "a number from 0.1 to 1000000",
			doc: "Most calls a second that a tenant may make, at all addresses together; bursts of twice as many are let through." +
				overridden,
			binding: fraction(func(c *Config) *float64 { return &c.Quota.RequestsPerSecond }, func(v float64) bool { return v >= 0.1 && v <= 1_000_000 }),
		}, {
			key: "quota.calls", def: "2000", allowed: "a whole number from 1 to 1000000",
			doc:     "Most calls of a tenant that may be under way at once, streams and transfers too." + overridden,
			binding: whole(func(c *Config) *int { return &c.Quota.Calls }, 1, 1_000_000),
		},
	}
}
