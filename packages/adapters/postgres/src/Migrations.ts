/** Every schema change, in order. Append only: a migration that was released is never edited. */
import { Effect, Layer } from "effect"
import { Migrator } from "effect/sql"
import sandboxes from "./migrations/0001_sandboxes.ts"
import localSource from "./migrations/0002_local_source.ts"
import partnerFeed from "./migrations/0003_partner_feed.ts"
import retention from "./migrations/0004_retention.ts"
import spending from "./migrations/0005_spending.ts"
import workerLinks from "./migrations/0006_worker_links.ts"
import access from "./migrations/0007_access.ts"
import partners from "./migrations/0008_partners.ts"
import visits from "./migrations/0009_visits.ts"
import webhooks from "./migrations/0010_webhooks.ts"
import credits from "./migrations/0011_credits.ts"
import githubIdentity from "./migrations/0012_github_identity.ts"
import logBytes from "./migrations/0013_log_bytes.ts"
import messagesById from "./migrations/0018_messages_by_id.ts"
import rateSlots from "./migrations/0019_rate_slots.ts"
import receiptTurns from "./migrations/0020_receipt_turns.ts"
import checkpointState from "./migrations/0021_checkpoint_state.ts"
import rest from "./migrations/0022_rest.ts"
import checkpoints from "./migrations/0023_checkpoints.ts"
import linkMachines from "./migrations/0024_link_machines.ts"
import checkpointMarks from "./migrations/0026_checkpoint_marks.ts"
import repositorySecrets from "./migrations/0027_repository_secrets.ts"
import restingSandboxes from "./migrations/0028_resting_sandboxes.ts"
import pinned from "./migrations/0029_pinned.ts"
import moved from "./migrations/0030_moved.ts"
import sandboxSetups from "./migrations/0031_sandbox_setups.ts"
import leasesOfFinished from "./migrations/0032_leases_of_finished.ts"
import setupTime from "./migrations/0033_setup_time.ts"
import waitingMessages from "./migrations/0034_waiting_messages.ts"
import deviceLogins from "./migrations/0035_device_logins.ts"
import checkpointChanges from "./migrations/0041_checkpoint_changes.ts"
import denialReasons from "./migrations/0042_denial_reasons.ts"
import workerRooms from "./migrations/0044_worker_rooms.ts"
import tokens from "./migrations/0045_tokens.ts"
import traces from "./migrations/0046_traces.ts"
import openCalls from "./migrations/0047_open_calls.ts"
import trustedRefs from "./migrations/0053_trusted_refs.ts"
import pushedCommits from "./migrations/0054_pushed_commits.ts"
import limits from "./migrations/0055_limits.ts"
import unreadWebhooks from "./migrations/0056_unread_webhooks.ts"
import recordedAt from "./migrations/0057_recorded_at.ts"
import deviceLoginNetworks from "./migrations/0058_device_login_networks.ts"
import checkpointLog from "./migrations/0059_checkpoint_log.ts"
import callsByAge from "./migrations/0060_calls_by_age.ts"

const run = Migrator.make({})

/** By number and name. */
export const migrations = {
  "0001_sandboxes": sandboxes,
  "0002_local_source": localSource,
  "0003_partner_feed": partnerFeed,
  "0004_retention": retention,
  "0005_spending": spending,
  "0006_worker_links": workerLinks,
  "0007_access": access,
  "0008_partners": partners,
  "0009_visits": visits,
  "0010_webhooks": webhooks,
  "0011_credits": credits,
  "0012_github_identity": githubIdentity,
  "0013_log_bytes": logBytes,
  "0018_messages_by_id": messagesById,
  "0019_rate_slots": rateSlots,
  "0020_receipt_turns": receiptTurns,
  "0021_checkpoint_state": checkpointState,
  "0022_rest": rest,
  "0023_checkpoints": checkpoints,
  "0024_link_machines": linkMachines,
  "0026_checkpoint_marks": checkpointMarks,
  "0027_repository_secrets": repositorySecrets,
  "0028_resting_sandboxes": restingSandboxes,
  "0029_pinned": pinned,
  "0030_moved": moved,
  "0031_sandbox_setups": sandboxSetups,
  "0032_leases_of_finished": leasesOfFinished,
  "0033_setup_time": setupTime,
  "0034_waiting_messages": waitingMessages,
  "0035_device_logins": deviceLogins,
  "0041_checkpoint_changes": checkpointChanges,
  "0042_denial_reasons": denialReasons,
  "0044_worker_rooms": workerRooms,
  "0045_tokens": tokens,
  "0046_traces": traces,
  "0047_open_calls": openCalls,
  "0053_trusted_refs": trustedRefs,
  "0054_pushed_commits": pushedCommits,
  "0055_limits": limits,
  "0056_unread_webhooks": unreadWebhooks,
  "0057_recorded_at": recordedAt,
  "0058_device_login_networks": deviceLoginNetworks,
  "0059_checkpoint_log": checkpointLog,
  "0060_calls_by_age": callsByAge
}

/** Brings the database up to date when the layer is built, in one transaction under a lock. */
export const layer = Layer.effectDiscard(
  run({
    loader: Migrator.fromRecord(migrations)
  }).pipe(
    Effect.tap((applied) => applied.length === 0 ? Effect.void : Effect.logInfo("migrations applied", { count: applied.length }))
  )
)
