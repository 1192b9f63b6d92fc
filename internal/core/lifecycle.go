package core

// LifecycleAction is what a rule of a sandbox's lifecycle does.
type LifecycleAction string

// The actions. Those that put a sandbox to sleep are words already and not yet done by any rule.
const (
	ActionFreeze    LifecycleAction = "freeze"
	ActionStandby   LifecycleAction = "standby"
	ActionHibernate LifecycleAction = "hibernate"
	ActionStop      LifecycleAction = "stop"
	ActionDelete    LifecycleAction = "delete"
)

// LifecycleActions lists every action.
func LifecycleActions() []LifecycleAction {
	return []LifecycleAction{ActionFreeze, ActionStandby, ActionHibernate, ActionStop, ActionDelete}
}
