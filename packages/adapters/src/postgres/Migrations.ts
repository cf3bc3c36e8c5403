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
  "0020_receipt_turns": receiptTurns
}

/** Brings the database up to date when the layer is built, in one transaction under a lock. */
export const layer = Layer.effectDiscard(
  run({
    loader: Migrator.fromRecord(migrations)
  }).pipe(
    Effect.tap((applied) => applied.length === 0 ? Effect.void : Effect.logInfo("migrations applied", { count: applied.length }))
  )
)
