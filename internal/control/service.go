// Package control holds the use cases: what a tenant may ask for, recorded durably before it is done, carried out on a node
// one command at a time per sandbox, and repaired by reconcile loops after a crash.
//
// It knows no HTTP, no SQL and no runtime: it meets the node and the guest agent at ports in core. Start reading at
// create.go and delete.go, then reconcile.go.
package control

import (
	"context"
	"log/slog"
	"time"

	"shoal/internal/core"
	"shoal/internal/store"
)

// Config is what the use cases need.
type Config struct {
	Store  store.Store
	Node   core.Node
	NodeID core.NodeID
	// BootID names the boot of the node's machine; empty if nobody knows.
	BootID string
	Limits Limits
	// Sizes tells what sandboxes keep on the disk; nil if nobody can.
	Sizes core.TreeSizes
	// Build fills the tree of a template that the server makes itself, by the name of its recipe.
	Build TemplateBuilder
	// ImportImage fills the tree of a template from a container image; nil if this server imports none. Spool keeps the archives that
	// callers upload for that; nil if it takes none.
	ImportImage ImageImporter
	Spool       Spool
	// Vault seals the logins that tenants keep for registries; nil if this server keeps none.
	Vault Vault
	// Bootstrap names the templates to have, in the order in which they are made.
	Bootstrap []string
	Clock     core.Clock
	Logger    *slog.Logger
	// Observer is told of what happens, for metrics. It may be nil.
	Observer Observer
}

// Observer is told of what happens. Its methods must not block.
type Observer interface {
	// Create reports how a create ended and how long it took.
	Create(err error, took time.Duration)
	// Delete reports how a delete was answered and how long that took.
	Delete(err error, took time.Duration)
	// Stop and Wake report how a stop and a wake ended and how long it took.
	Stop(err error, took time.Duration)
	Wake(err error, took time.Duration)
	// ExecStart reports whether a process was started and how long that took.
	ExecStart(err error, took time.Duration)
	// ExecEnd reports how an exec ended.
	ExecEnd(outcome core.Outcome)
	// OperationEnd reports how an operation ended and how long it took.
	OperationEnd(kind core.WorkKind, state core.OperationState, took time.Duration)
}

// Service is the use cases. It joins parts that each look after one noun, and holds nothing of its own.
//
// Durable: everything in the store. Process-only: the commands under way, the exec watchers, the waiters for events, the process
// ids of execs that have just started, the work of operations, and when sandboxes with an idle rule were last used, of which the store has a bound.
type Service struct {
	*deps
	*finder
	*files
	*fileWatches
	*differing
	*signing
	*keys
	*usage
	*happenings
	*tenants
	*operations
	*making
	*keeping
	*uploads
	*registryLogins
	*checkpoints
	*restoring
	*audit
	*batches
	*ensures
	*forking
	*whys
	once       *once
	access     *access
	nodeID     core.NodeID
	templates  *templates
	origins    *origins
	creation   *creation
	removal    *removal
	records    *execRecords
	watchers   *watchers
	starter    *starter
	resizing   *resizing
	stopping   *stopping
	waking     *waking
	lifecycle  *lifecycle
	forgetting *forgetting
	idle       *idle
	repair     *repair
}

// deps is what every part meets: the world outside, and what they share among themselves.
type deps struct {
	store    store.Store
	node     core.Node
	clock    core.Clock
	log      *slog.Logger
	observer Observer
	commands *commands
	waiters  *waiters
	tasks    *tasks
	activity *activity
	// limits are the server's; limitsOf has those of a tenant.
	limits Limits
	quotas *quotas
	live   *live
	gate   *gate
}

// New returns the use cases. Nothing happens before Start.
func New(cfg Config) *Service {
	if cfg.Clock == nil {
		cfg.Clock = core.SystemClock{}
	}
	if cfg.Observer == nil {
		cfg.Observer = noObserver{}
	}
	if cfg.Spool == nil {
		cfg.Spool = noSpool{}
	}
	d := &deps{
		store: cfg.Store, node: cfg.Node, clock: cfg.Clock, log: cfg.Logger, observer: cfg.Observer,
		commands: newCommands(), waiters: newWaiters(), tasks: newTasks(),
		activity: newActivity(cfg.Store, cfg.Clock, cfg.Logger),
		limits:   cfg.Limits, quotas: &quotas{defaults: cfg.Limits.Quota, clock: cfg.Clock},
		live: newLive(cfg.Store, cfg.Clock), gate: newGate("create", createPlaces(), createPlaces()),
	}
	s := &Service{deps: d, finder: &finder{d}, keys: &keys{deps: d, lastUsed: map[core.KeyID]time.Time{}}, operations: newOperations(d), nodeID: cfg.NodeID}
	s.files = &files{s.finder}
	s.differing = &differing{finder: s.finder, room: newGate("comparison", diffPlaces, tenantDiffPlaces)}
	s.fileWatches = &fileWatches{deps: d, finder: s.finder, kept: map[string]*keptWatch{}}
	s.access = &access{deps: d}
	s.signing = &signing{finder: s.finder, access: s.access}
	s.once = newOnce(d)
	s.batches = newBatches(d, s.once, s.createOnce)
	s.ensures = &ensures{finder: s.finder, create: s.CreateSandbox}
	s.whys = &whys{finder: s.finder, sizes: cfg.Sizes}
	s.addTemplates(cfg)
	s.records = &execRecords{deps: d, young: newYoung()}
	s.watchers = newWatchers(d, s.records)
	s.starter = &starter{finder: s.finder, once: s.once, records: s.records, watchers: s.watchers}
	s.checkpoints = &checkpoints{finder: s.finder, once: s.once, keeping: &checkpointKeeping{deps: d, moved: make(chan struct{}, 1)}}
	s.removal = &removal{deps: d, watchers: s.watchers, checkpoints: s.checkpoints.keeping}
	s.happenings = &happenings{deps: d, find: s.finder}
	s.usage = &usage{deps: d, sizes: cfg.Sizes}
	s.creation = &creation{deps: d, removal: s.removal, usage: s.usage}
	s.tenants = &tenants{deps: d, removal: s.removal, operations: s.operations, spool: cfg.Spool}
	s.lifecycle = &lifecycle{deps: d, removal: s.removal, moved: make(chan struct{}, 1), tries: map[core.SandboxID]*try{}}
	s.forgetting = &forgetting{deps: d, once: s.once}
	s.audit = newAudit(d)
	s.idle = &idle{deps: d, lifecycle: s.lifecycle}
	s.forking = &forking{
		finder: s.finder, once: s.once, checkpoints: s.checkpoints, creation: s.creation, lifecycle: s.lifecycle, nodeID: cfg.NodeID,
	}
	s.resizing = &resizing{deps: d, usage: s.usage}
	s.stopping = &stopping{
		deps: d, watchers: s.watchers, usage: s.usage, lifecycle: s.lifecycle, graces: graces{by: map[core.SandboxID]*graceWait{}},
	}
	s.lifecycle.stops = s.stopping
	s.waking = &waking{deps: d, lifecycle: s.lifecycle}
	s.repair = &repair{
		deps: d, creation: s.creation, removal: s.removal, watchers: s.watchers, usage: s.usage, resizing: s.resizing,
		lifecycle: s.lifecycle, stopping: s.stopping, waking: s.waking, boot: &boot{deps: d, node: cfg.NodeID, id: cfg.BootID},
	}
	s.waking.failed = s.repair.failed
	s.restoring = &restoring{finder: s.finder, once: s.once, checkpoints: s.checkpoints, watchers: s.watchers, waking: s.waking}
	s.repair.restoring = s.restoring
	return s
}

// addTemplates adds the parts that make and keep templates.
func (s *Service) addTemplates(cfg Config) {
	s.templates = &templates{deps: s.deps, build: cfg.Build, names: cfg.Bootstrap, underWay: s.operations.underWay}
	s.origins = &origins{deps: s.deps, templates: s.templates}
	s.keeping = &keeping{s.deps}
	s.registryLogins = &registryLogins{deps: s.deps, vault: cfg.Vault}
	s.making = &making{
		deps: s.deps, operations: s.operations, keeping: s.keeping, logins: s.registryLogins, once: s.once, importer: cfg.ImportImage, spool: cfg.Spool,
	}
	s.uploads = &uploads{deps: s.deps, spool: cfg.Spool}
	s.operations.workers[core.WorkTemplateImport], s.operations.workers[core.WorkTemplateCreate] = s.making, s.making
}

// Start repairs what a restart cut off, applies the ttls and idle rules whose time came meanwhile, and starts the loops. No call may be made
// before it returns.
func (s *Service) Start(ctx context.Context) error {
	if err := s.access.start(ctx); err != nil {
		return err
	}
	if err := s.usage.start(ctx); err != nil {
		return err
	}
	if err := s.repair.reconcile(ctx); err != nil {
		return err
	}
	if err := s.activity.load(ctx); err != nil {
		return err
	}
	if err := s.tenants.resume(ctx); err != nil {
		return err
	}
	if err := s.keeping.finish(ctx); err != nil {
		return err
	}
	if err := s.checkpoints.keeping.recover(ctx); err != nil {
		return err
	}
	if err := s.operations.recover(ctx); err != nil {
		return err
	}
	s.tasks.run(s.lifecycle.loop)
	s.tasks.run(s.checkpoints.keeping.loop)
	s.tasks.run(s.idle.loop)
	s.tasks.run(s.forgetting.loop)
	s.tasks.run(s.repair.exitLoop)
	s.tasks.run(s.live.loop)
	s.tasks.run(s.audit.loop)
	s.tasks.run(s.templates.loop)
	s.tasks.run(s.uploads.loop)
	s.tasks.run(s.usage.loop)
	s.tasks.run(s.usage.forgetLoop)
	return nil
}

// Close ends the loops and waits for background work; sandboxes go on. Deletes that were not finished go on at the next
// Start.
func (s *Service) Close() error {
	s.tasks.close()
	s.activity.close(context.Background())
	s.audit.close(context.Background())
	s.usage.close(context.Background())
	return nil
}

// Ready returns nil when sandboxes can be created, or says what is still missing.
func (s *Service) Ready(ctx context.Context) error {
	if len(s.templates.names) == 0 {
		return nil
	}
	_, err := s.templates.ready(ctx, core.DefaultTenant, s.templates.names[0])
	return err
}

// Capacity tells what the node has and has promised.
func (s *Service) Capacity(ctx context.Context, p Principal) (core.NodeCapacity, error) {
	if err := p.may("Capacity"); err != nil {
		return core.NodeCapacity{}, err
	}
	if err := p.needKey(); err != nil {
		return core.NodeCapacity{}, err
	}
	return s.node.Capacity(ctx)
}

// CountSandboxes tells how many sandboxes of all tenants are in each state; deleted ones are not counted.
func (s *Service) CountSandboxes(ctx context.Context) (count map[core.State]int, err error) {
	err = s.store.View(ctx, func(r store.Reader) error {
		count, err = r.CountSandboxes()
		return err
	})
	return count, err
}

type noObserver struct{}

func (noObserver) Create(error, time.Duration)                                    {}
func (noObserver) Delete(error, time.Duration)                                    {}
func (noObserver) Stop(error, time.Duration)                                      {}
func (noObserver) Wake(error, time.Duration)                                      {}
func (noObserver) ExecStart(error, time.Duration)                                 {}
func (noObserver) ExecEnd(core.Outcome)                                           {}
func (noObserver) OperationEnd(core.WorkKind, core.OperationState, time.Duration) {}
