package failpoint

// The points, named package.operation.place.
const (
	ControlCreateRecorded   = "control.create.recorded"
	ControlCreateNodeDone   = "control.create.node-done"
	ControlCreateCommitted  = "control.create.committed"
	ControlStopRecorded     = "control.stop.recorded"
	ControlStopNodeDone     = "control.stop.node-done"
	ControlStopCommitted    = "control.stop.committed"
	ControlWakeRecorded     = "control.wake.recorded"
	ControlWakeNodeDone     = "control.wake.node-done"
	ControlWakeCommitted    = "control.wake.committed"
	ControlRestoreRecorded  = "control.restore.recorded"
	ControlRestoreNodeDone  = "control.restore.node-done"
	ControlRestoreCommitted = "control.restore.committed"
	ControlDeleteRecorded   = "control.delete.recorded"
	ControlDeleteNodeDone   = "control.delete.node-done"
	ControlDeleteCommitted  = "control.delete.committed"
	ControlResizeRecorded   = "control.resize.recorded"
	ControlResizeNodeDone   = "control.resize.node-done"
	ControlResizeCommitted  = "control.resize.committed"
	ControlExecRecorded     = "control.exec.recorded"
	ControlExecStarted      = "control.exec.started"
	ControlExecEnded        = "control.exec.ended"
	ControlTenantDeleted    = "control.tenant.deleted"
	ControlTenantEmptied    = "control.tenant.emptied"
	ControlOnceNoted        = "control.once.noted"
	ControlRuleDue          = "control.rule.due"

	ControlOperationRecorded = "control.operation.recorded"
	ControlOperationWorked   = "control.operation.worked"
	ControlOperationEnded    = "control.operation.ended"
	ControlTemplateMade      = "control.template.made"
	ControlTemplateDeleted   = "control.template.deleted"
	ControlTemplateTreeGone  = "control.template.tree-gone"

	NodeCreateJournaled  = "node.create.journaled"
	NodeCreateCloned     = "node.create.cloned"
	NodeCreateAttached   = "node.create.attached"
	NodeCreateRunDir     = "node.create.run-dir"
	NodeCreateIsolated   = "node.create.isolated"
	NodeCreateStarted    = "node.create.started"
	NodeCreateConfigured = "node.create.configured"
	NodeCreateReady      = "node.create.ready"
	NodeStopJournaled    = "node.stop.journaled"
	NodeStopReclaimed    = "node.stop.reclaimed"
	NodeWakeJournaled    = "node.wake.journaled"
	NodeWakeTree         = "node.wake.tree"
	NodeWakeAttached     = "node.wake.attached"
	NodeWakeRunDir       = "node.wake.run-dir"
	NodeWakeIsolated     = "node.wake.isolated"
	NodeWakeStarted      = "node.wake.started"
	NodeWakeConfigured   = "node.wake.configured"
	NodeWakeReady        = "node.wake.ready"
	NodeRestoreJournaled = "node.restore.journaled"
	NodeRestoreEnded     = "node.restore.ended"
	NodeRestoreReplaced  = "node.restore.replaced"
	NodeDeleteBegun      = "node.delete.begun"
	NodeDeleteKilled     = "node.delete.killed"
	NodeDeleteDetached   = "node.delete.detached"
	NodeDeleteTreeGone   = "node.delete.tree-gone"
	NodeDeleteRunDirGone = "node.delete.run-dir-gone"
	NodeResizeJournaled  = "node.resize.journaled"
	NodeResizeHalf       = "node.resize.half"
	NodeResizeDone       = "node.resize.done"
	NodeImportCreated    = "node.import.created"
	NodeImportFilled     = "node.import.filled"
	NodeImportFrozen     = "node.import.frozen"
	NodeCaptureCloned    = "node.capture.cloned"
	NodeCaptureCleaned   = "node.capture.cleaned"
	NodeCaptureFrozen    = "node.capture.frozen"
	NodeDiffCloned       = "node.diff.cloned"
	NodeDiffCompared     = "node.diff.compared"

	ControlCheckpointRecorded  = "control.checkpoint.recorded"
	ControlCheckpointNodeDone  = "control.checkpoint.node-done"
	ControlCheckpointCommitted = "control.checkpoint.committed"
	ControlCheckpointDeleted   = "control.checkpoint.deleted"
	ControlCheckpointTreeGone  = "control.checkpoint.tree-gone"
	ControlForkRecorded        = "control.fork.recorded"
	ControlForkSaved           = "control.fork.saved"
	ControlForkNodeDone        = "control.fork.node-done"
	ControlForkCommitted       = "control.fork.committed"
	NodeCheckpointFlushed      = "node.checkpoint.flushed"
	NodeCheckpointHeld         = "node.checkpoint.held"
	NodeCheckpointCloned       = "node.checkpoint.cloned"
	NodeCheckpointThawed       = "node.checkpoint.thawed"

	ImageLayerSent = "image.layer.sent"

	// NodeSilenceClock is a clock.
	NodeSilenceClock = "node.silence.clock"
)

// Names lists every point.
func Names() []string {
	return []string{
		ControlCreateRecorded, ControlCreateNodeDone, ControlCreateCommitted,
		ControlStopRecorded, ControlStopNodeDone, ControlStopCommitted,
		ControlWakeRecorded, ControlWakeNodeDone, ControlWakeCommitted,
		ControlRestoreRecorded, ControlRestoreNodeDone, ControlRestoreCommitted,
		ControlDeleteRecorded, ControlDeleteNodeDone, ControlDeleteCommitted,
		ControlResizeRecorded, ControlResizeNodeDone, ControlResizeCommitted,
		ControlExecRecorded, ControlExecStarted, ControlExecEnded, ControlOnceNoted, ControlRuleDue,
		ControlTenantDeleted, ControlTenantEmptied,
		ControlOperationRecorded, ControlOperationWorked, ControlOperationEnded,
		ControlTemplateMade, ControlTemplateDeleted, ControlTemplateTreeGone,
		NodeCreateJournaled, NodeCreateCloned, NodeCreateAttached, NodeCreateRunDir, NodeCreateIsolated,
		NodeCreateStarted, NodeCreateConfigured, NodeCreateReady,
		NodeStopJournaled, NodeStopReclaimed,
		NodeWakeJournaled, NodeWakeTree, NodeWakeAttached, NodeWakeRunDir, NodeWakeIsolated,
		NodeWakeStarted, NodeWakeConfigured, NodeWakeReady,
		NodeRestoreJournaled, NodeRestoreEnded, NodeRestoreReplaced,
		NodeDeleteBegun, NodeDeleteKilled, NodeDeleteDetached, NodeDeleteTreeGone, NodeDeleteRunDirGone,
		NodeResizeJournaled, NodeResizeHalf, NodeResizeDone,
		NodeImportCreated, NodeImportFilled, NodeImportFrozen,
		NodeCaptureCloned, NodeCaptureCleaned, NodeCaptureFrozen,
		ControlCheckpointRecorded, ControlCheckpointNodeDone, ControlCheckpointCommitted,
		ControlCheckpointDeleted, ControlCheckpointTreeGone,
		ControlForkRecorded, ControlForkSaved, ControlForkNodeDone, ControlForkCommitted,
		NodeCheckpointFlushed, NodeCheckpointHeld, NodeCheckpointCloned, NodeCheckpointThawed,
		NodeDiffCloned, NodeDiffCompared,
		ImageLayerSent,
		NodeSilenceClock,
	}
}
