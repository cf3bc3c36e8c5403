/**
 * Mistakes that the simulation is known to find: each is one change of one module, which is made while that is loaded. Nothing is
 * written to the sources, and no code that is shipped knows of it.
 */
import { registerHooks } from "node:module"

export interface Plant {
  readonly name: string
  /** Description of the mistake, for people. */
  readonly mistake: string
  /** The rule of the simulation that it breaks. */
  readonly rule: string
  /** Below `packages`. */
  readonly module: string
  /** Stands there once. */
  readonly from: string
  readonly to: string
}

const LIMIT = "domain/src/sandbox/rules/TimeLimit.ts"
const LEASING = "domain/src/sandbox/rules/LeaseRules.ts"
const SANDBOX = "domain/src/sandbox/rules/Sandbox.ts"
const STORE = "domain/memory/sandbox/SandboxStoreMemory.ts"
const WEBHOOK = "domain/src/partner/rules/Webhook.ts"
const WEBHOOKS = "domain/memory/partner/WebhookStoreMemory.ts"
const NOTIFICATIONS = "domain/memory/partner/NotificationsMemory.ts"
const FEEDBACK = "domain/src/publishing/rules/Feedback.ts"
const SPENDING = "domain/memory/models/SpendingMemory.ts"

export const plants: ReadonlyArray<Plant> = [
  // Boots
  {
    name: "boot-resumes",
    mistake: "a boot goes on with the session of an earlier boot that was cut short, and the session may have gone with its machine",
    rule: "an agent goes on with a session that its machine has",
    module: "worker/src/boot/BootSandbox.ts",
    from: "const saved = origin === null ? null : known",
    to: "const saved = known"
  },
  {
    name: "any-checkpoint-restored",
    mistake: "the bytes of another checkpoint are restored in the place of the wanted one",
    rule: "what was given out damaged, or is another's, is not restored",
    module: "worker/src/checkpoint/CheckpointFormat.ts",
    from: "if (!isAsked(header, asked)) return",
    to: "if (header === null) return"
  },
  // Limits
  {
    name: "lifetime-from-start",
    mistake: "the lifetime counts from the first entry to running, not from the creation",
    rule: "of what is due at once the first is applied first",
    module: LIMIT,
    from: "at: after(createdAt, limits.lifetime)",
    to: "at: after(sandbox.startedAt ?? createdAt, limits.lifetime)"
  },
  {
    name: "boot-halved",
    mistake: "a boot has half of its time",
    rule: "what is due is told, the oldest first",
    module: LIMIT,
    from: "return after(statusAt, Duration.sum(boot,",
    to: "return after(statusAt, Duration.sum(Duration.millis(Duration.toMillis(boot) / 2),"
  },
  {
    name: "release-from-creation",
    mistake: "how long an end may take counts from the creation",
    rule: "no time limit is applied before it has come",
    module: LIMIT,
    from: "found.push({ at: after(statusAt, limits.release)",
    to: "found.push({ at: after(createdAt, limits.release)"
  },
  {
    name: "idle-while-publishing",
    mistake: "a sandbox is idle although it is being published",
    rule: "what is due is told, the oldest first",
    module: LIMIT,
    from: "} else if (!sandbox.publications.some(isUnderWay)) {",
    to: "} else {"
  },
  {
    name: "idle-from-running",
    mistake: "the idle window counts from the entry to running",
    rule: "what is due is told, the oldest first",
    module: LIMIT,
    from: "at: after(idleSince ?? statusAt, limits.idle)",
    to: "at: after(statusAt, limits.idle)"
  },
  {
    name: "turn-from-running",
    mistake: "how long a turn may take counts from the entry to running",
    rule: "what is due is told, the oldest first",
    module: LIMIT,
    from: "at: after(turn.startedAt, limits.turn)",
    to: "at: after(statusAt, limits.turn)"
  },
  {
    name: "lifetime-last",
    mistake: "a lifetime that is over waits for approvals and turns",
    rule: "of what is due at once the first is applied first",
    module: LIMIT,
    from: "const due = deadlines(current, limits).find(",
    to: "const due = deadlines(current, limits).findLast("
  },
  {
    name: "approvals-for-ever",
    mistake: "the oldest approval of a sandbox never expires",
    rule: "what is due is told, the oldest first",
    module: LIMIT,
    from: "for (const approval of sandbox.approvals) {",
    to: "for (const approval of sandbox.approvals.slice(1)) {"
  },
  {
    name: "newest-limit-first",
    mistake: "of what is due the newest is told first",
    rule: "what is due is told, the oldest first",
    module: "domain/memory/sandbox/MaintenanceMemory.ts",
    from: "const byLimit = (a: Due, b: Due) => DateTime.Order(a.at, b.at)",
    to: "const byLimit = (a: Due, b: Due) => DateTime.Order(b.at, a.at)"
  },
  // The fold of a log into a sandbox
  {
    name: "started-again",
    mistake: "each turn sets anew when the sandbox started",
    rule: "the stored sandbox is what its log says",
    module: SANDBOX,
    from: "turn: { ...turn, state: \"running\", startedAt: at }",
    to: "turn: { ...turn, state: \"running\", startedAt: at }, startedAt: at"
  },
  {
    name: "interrupt-forgotten",
    mistake: "that a turn is to end is forgotten with the next change of it",
    rule: "the stored sandbox is what its log says",
    module: SANDBOX,
    from: "interruptRequested: turn.interruptRequested || event.data.reason === \"interrupt\"\n        }\n      }\n    case",
    to: "interruptRequested: event.data.reason === \"interrupt\" && turn.n > 1\n        }\n      }\n    case"
  },
  {
    name: "nothing-owed",
    mistake: "no turn owes a checkpoint",
    rule: "the stored sandbox is what its log says",
    module: SANDBOX,
    from: "owesCheckpoint: sandbox.owesCheckpoint || turn.startedAt !== null,",
    to: "owesCheckpoint: sandbox.owesCheckpoint,"
  },
  {
    name: "revision-of-checkpoints",
    mistake: "the revision counts checkpoints too",
    rule: "the stored sandbox is what its log says",
    module: "domain/src/sandbox/rules/SandboxEvent.ts",
    from: "\"sandbox.checkpoint\": false,",
    to: "\"sandbox.checkpoint\": true,"
  },
  // Claims
  {
    name: "youngest-first",
    mistake: "who came last is given first",
    rule: "the longest waiting sandbox is leased first, and grants take turns",
    module: LEASING,
    from: "Instant.Order(a.workSince, b.workSince)",
    to: "Instant.Order(b.workSince, a.workSince)"
  },
  {
    name: "no-turns-of-grants",
    mistake: "grants take no turns",
    rule: "the longest waiting sandbox is leased first, and grants take turns",
    module: LEASING,
    from: ".sort((a, b) => a.turn - b.turn)",
    to: ""
  },
  {
    name: "idle-publication",
    mistake: "of what is over nothing is published any more",
    rule: "the longest waiting sandbox is leased first, and grants take turns",
    module: LEASING,
    from: "    case \"succeeded\":\n    case \"failed\":\n      return publications.some(isUnderWay) ? \"errand\" : null",
    to: "    case \"succeeded\":\n    case \"failed\":\n      return null"
  },
  {
    name: "everybody-at-once",
    mistake: "another machine need not wait for the machine that has the files",
    rule: "the longest waiting sandbox is leased first, and grants take turns",
    module: LEASING,
    from: "return Instant.isLessThanOrEqualTo(Instant.addDuration(last, lost), now)",
    to: "return Instant.isLessThanOrEqualTo(last, now) || lost === null"
  },
  {
    name: "release-unwritten",
    mistake: "a worker does not write that a sandbox has ended, and releases it again and again",
    rule: "everything settles",
    module: "worker/src/shared/ReleaseSandbox.ts",
    from: "leased.write([{ _tag: \"Release\" }])",
    to: "Effect.void"
  },
  // Requests that come again, as their answer was lost
  {
    name: "receipts-forgotten",
    mistake: "a message that comes again under its key is another one",
    rule: "an equal message with one key is one turn",
    module: STORE,
    from: "if (keyed !== undefined && keep?.outcome === \"applied\") {",
    to: "if (keyed !== undefined && keep?.outcome === \"applied\" && row.keys.size > 0) {"
  },
  {
    name: "keys-of-all",
    mistake: "a creation's key is bound after it, in a step of its own that a crash leaves out",
    rule: "a key makes one sandbox",
    module: STORE,
    from: "    const row = newRow(creation)\n",
    to: "    const row = newRow(creation)\n    if (keyed !== null && creation.createdAt.epochMilliseconds % 5 === 0) keyed = null\n"
  },
  // Rights that are taken back
  {
    name: "revoked-grant-heard",
    mistake: "keys of a revoked grant are heard",
    rule: "a request with a revoked key is not answered",
    module: "domain/memory/access/AccessStoreMemory.ts",
    from: "key.record.revokedAt !== null || grant.revokedAt !== null) return null",
    to: "key.record.revokedAt !== null) return null"
  },
  {
    name: "revoked-key-heard",
    mistake: "a key is heard although it is revoked",
    rule: "a request with a revoked key is not answered",
    module: "domain/memory/access/AccessStoreMemory.ts",
    from: "grant === undefined || key.record.revokedAt !== null ||",
    to: "grant === undefined ||"
  },
  {
    name: "running-of-revoked",
    mistake: "of a revoked grant what runs already goes on",
    rule: "the sandboxes of a revoked grant are ended",
    module: "domain/src/sandbox/rules/SystemCommand.ts",
    from: "return live.includes(sandbox.status) ? moveTo(sandbox, \"grant_revoked\")",
    to: "return sandbox.status === \"creating\" ? moveTo(sandbox, \"grant_revoked\")"
  },
  {
    name: "webhooks-of-revoked",
    mistake: "a revoked grant's receivers are told on",
    rule: "nothing is sent for a grant that is revoked, or to an endpoint that is deleted",
    module: WEBHOOKS,
    from: "if (grant === undefined || grant.revokedAt !== null) return false",
    to: "if (grant === undefined) return false"
  },
  // Retention
  {
    name: "logs-by-creation",
    mistake: "a log is forgotten when its sandbox was created long ago, not when it ended",
    rule: "the log of a sandbox is kept for its time after its end",
    module: "domain/memory/sandbox/MaintenanceMemory.ts",
    from: "DateTime.isLessThanOrEqualTo(statusAt, own.get(grantId) ?? endedBefore)",
    to: "DateTime.isLessThanOrEqualTo(DateTime.subtract(statusAt, { seconds: 20 }), own.get(grantId) ?? endedBefore)"
  },
  {
    name: "keys-for-a-day",
    mistake: "keys of creations are kept for a day",
    rule: "a key makes one sandbox",
    module: "domain/src/sandbox/rules/Idempotency.ts",
    from: "export const RETENTION_DAYS = 30",
    to: "export const RETENTION_DAYS = 1"
  },
  {
    name: "keys-for-ever",
    mistake: "keys of creations bind for ever",
    rule: "after its time a key makes a sandbox anew",
    module: "domain/memory/sandbox/SandboxRows.ts",
    from: "DateTime.isLessThan(DateTime.add(boundAt, { days: RETENTION_DAYS }), now)",
    to: "DateTime.isLessThan(DateTime.add(boundAt, { days: 40 * RETENTION_DAYS }), now)"
  },
  {
    name: "push-over-moved-branch",
    mistake: "a branch that a person moved is taken for the branch as the sandbox left it",
    rule: "a push to a continued branch keeps what a person pushed there",
    module: "domain/memory/files/TreePublishing.ts",
    from: "if (head !== pushed && !(isOurs && (pushed === null || repository.history(head).includes(pushed)))) {",
    to: "if (head !== pushed && !repository.commits.has(head)) {"
  },
  {
    name: "deletion-leaves-checkpoint",
    mistake: "a deletion leaves the checkpoints of the sandbox",
    rule: "a deleted sandbox leaves no checkpoint without a fork",
    module: "domain/memory/sandbox/SandboxRows.ts",
    from: "checkpoints: checkpoints.filter(({ checkpoint }) => isStart(state, id, checkpoint))",
    to: "checkpoints"
  },
  {
    name: "last-checkpoint-kept",
    mistake: "the last checkpoint of what is over is kept for ever",
    rule: "after its time a checkpoint is forgotten",
    module: "domain/memory/sandbox/CheckpointsMemory.ts",
    from: "return checkpoint === newest && DateTime.isGreaterThan(statusAt, endedBefore)",
    to: "return checkpoint === newest"
  },
  // Automations
  {
    name: "run-started-twice",
    mistake: "a run creates its sandbox without a key, so that the process that takes it over makes another one",
    rule: "a run starts one sandbox",
    module: "domain/src/automation/usecases/StartRun.ts",
    from: "Option.some(creationKey(id))",
    to: "Option.none()"
  },
  {
    name: "missed-times-run-each",
    mistake: "each time of a schedule that was missed makes a run of its own",
    rule: "the times of a schedule that were missed make one run",
    module: "domain/src/automation/rules/Automation.ts",
    from: "next: nextRun(settings.trigger, now)",
    to: "next: nextRun(settings.trigger, dueAt)"
  },
  {
    name: "stranger-starts-run",
    mistake: "a mention or a label by anybody starts a run",
    rule: "news of strangers and programs start nothing",
    module: "domain/src/automation/usecases/Automations.ts",
    from: " || !(yield* source.value.mayWrite(news.repo, news.author))",
    to: ""
  },
  {
    name: "repeated-news-run-again",
    mistake: "a comment or a label that comes again is another event",
    rule: "news of a person who may write have one run",
    module: "domain/src/automation/usecases/Automations.ts",
    from: "const facts = factsOfNews(news, yield* DateTime.now)",
    to: "const facts = factsOfNews({ ...news, id: `${yield* ids.uuid7}/${news.id}` }, yield* DateTime.now)"
  },
  // Feedback
  {
    name: "comment-delivered-twice",
    mistake: "a comment that was edited after its delivery is delivered again",
    rule: "a comment is delivered once",
    module: FEEDBACK,
    from: ".filter(({ at, author, id }) => !author.isBot && Instant.isGreaterThan(at, since) && !known.has(id))",
    to: ".filter(({ at, author, id, updatedAt }) => !author.isBot && Instant.isGreaterThan(at, since) && " +
      "(!known.has(id) || Instant.isGreaterThan(updatedAt, at)))"
  },
  {
    name: "stranger-heard",
    mistake: "comments of people who may not write to the repository become messages",
    rule: "comments of strangers are not delivered",
    module: FEEDBACK,
    from: ".filter(({ author }) => mayWrite.has(author.id))",
    to: ""
  },
  {
    name: "delivered-forgotten-by-successor",
    mistake: "a new sandbox does not know which comments the finished one had",
    rule: "a comment is delivered once",
    module: FEEDBACK,
    from: "{ ...(feedback ?? newFeedback(NO_FEEDBACK, createdAt)), round: null, continuedBy: null }",
    to: "{ ...(feedback ?? newFeedback(NO_FEEDBACK, createdAt)), round: null, continuedBy: null, delivered: [] }"
  },
  {
    name: "feedback-after-a-pause",
    mistake: "failing checks begin another round although feedback is paused",
    rule: "after a pause only a person's word begins a round",
    module: FEEDBACK,
    from: "if (!isWord && (state.paused || state.rounds >= rounds)) {",
    to: "if (!isWord && !state.paused && state.rounds >= rounds) {"
  },
  {
    name: "rounds-for-ever",
    mistake: "rounds are not counted, so the service and a failing check go on for ever",
    rule: "rounds without a person's word end",
    module: FEEDBACK,
    from: "const round = wanted.length > 0 ? 0 : isWord ? 1 : state.rounds + 1",
    to: "const round = wanted.length > 0 ? 0 : state.rounds"
  },
  // Clocks
  {
    name: "http-by-its-own-clock",
    mistake: "who answers people dates what they want by the clock of its machine",
    rule: "what a worker writes is dated by the store's clock",
    module: "domain/src/sandbox/usecases/StoreClock.ts",
    from: "const millis = () => elapsed() + offset",
    to: "const millis = () => own.currentTimeMillisUnsafe()"
  },
  // Money
  {
    name: "charged-twice",
    mistake: "a charge that is repeated is charged again",
    rule: "a sandbox has used what its requests were charged, each once",
    module: SPENDING,
    from: "if (known?.state === \"charged\") return\n",
    to: ""
  },
  {
    name: "reserved-for-ever",
    mistake: "what a dead worker reserved is not given back",
    rule: "nothing is reserved for what is over",
    module: SPENDING,
    from: "if (call.sandboxId !== sandboxId || state !== \"open\") continue",
    to: "if (call.sandboxId !== sandboxId || state !== \"charged\") continue"
  },
  {
    name: "reserved-without-a-machine",
    mistake: "what is reserved for a sandbox that ended while its machine was lost is not given back",
    rule: "nothing is reserved for what is over",
    module: "worker/src/jobs/ReleaseReservations.ts",
    from: "const { over } = yield* maintenance.left(machine, ids)",
    to: "const over: ReadonlyArray<SandboxId> = []"
  },
  {
    name: "reserved-beside-the-charge",
    mistake: "who is charged does not get back what was reserved for it",
    rule: "nothing is reserved for what is over",
    module: SPENDING,
    from: "giveBack(call, known?.reserved ?? 0, microUsd ?? 0,",
    to: "giveBack(call, 0, microUsd ?? 0,"
  },
  {
    name: "reservations-uncounted",
    mistake: "a budget does not count what is reserved",
    rule: "what is spent and reserved stays within the budget",
    module: "domain/src/models/rules/Budget.ts",
    from: "saturatingAdd(saturatingAdd(accounts[of].spent, accounts[of].reserved), microUsd) > limit",
    to: "saturatingAdd(accounts[of].spent, microUsd) > limit"
  },
  {
    name: "reserved-for-the-living",
    mistake: "a worker releases the reservations of all sandboxes, not of those that are over",
    rule: "what is reserved for a living sandbox stays reserved",
    module: "worker/src/jobs/ReleaseReservations.ts",
    from: "yield* Effect.forEach(over,",
    to: "yield* Effect.forEach(over.length < 0 ? over : ids,"
  },
  // Leases and writes
  {
    name: "agent-past-its-lease",
    mistake: "a worker that cannot renew its leases lets their agents go on for two more leases",
    rule: "no agent works after the lease of its worker",
    module: "worker/src/WorkerNode.ts",
    from: "if (session.validUntil <= late && !session.abandoned)",
    to: "if (session.validUntil <= late - 2 * LEASE_MILLIS && !session.abandoned)"
  },
  {
    name: "written-twice",
    mistake: "a write whose answer was lost is made again, although it is in the log",
    rule: "a write whose answer was lost is not made again",
    module: "worker/src/shared/LeasedSandbox.ts",
    from: "  events.length > 0 && log.some((_, start) =>",
    to: "  events.length > 1000 && log.some((_, start) =>"
  },
  // Two versions and two sets of limits side by side
  {
    name: "due-by-first-limits",
    mistake: "the store looks for what is due by the limits that it read at its start",
    rule: "what is due is told, the oldest first",
    module: STORE,
    from: "MaintenanceMemory.make(state, limits, access)",
    to: "MaintenanceMemory.make(state, { ...limits }, access)"
  },
  {
    name: "lost-by-first-limit",
    mistake: "the store gives the sandboxes of lost machines away by the limit that it read at its start",
    rule: "the longest waiting sandbox is leased first, and grants take turns",
    module: STORE,
    from: "LeasesMemory.make(state, limits, hints)",
    to: "LeasesMemory.make(state, { ...limits }, hints)"
  },
  {
    name: "approval-by-first-limit",
    mistake: "a worker grants approvals the time that was the limit when it took the lease",
    rule: "an approval or a question expires when its time is over",
    module: "worker/src/shared/LeasedSandbox.ts",
    from: "const limits = yield* Policy",
    to: "const limits = { ...(yield* Policy) }"
  },
  {
    name: "rows-of-this-version",
    mistake: "a row that the earlier version wrote cannot be read, because it does not have the time of its newest event",
    rule: "nothing dies of a defect",
    module: "domain/src/sandbox/schema/Sandbox.ts",
    from: "recordedAt: Schema.NullOr(Timestamp).pipe(Schema.withDecodingDefaultKey(Effect.succeed(null))),",
    to: "recordedAt: Schema.NullOr(Timestamp),"
  },
  {
    name: "pushed-by-this-version",
    mistake: "a pull request cannot be updated that the earlier version recorded, because the pushed commit is not beside it",
    rule: "nothing dies of a defect",
    module: "domain/src/publishing/rules/Publication.ts",
    from: "head_ref: known?.pushed?.headRef ?? headRef(sandbox.id)",
    to: "head_ref: known?.number == null ? headRef(sandbox.id) : known.pushed!.headRef"
  },
  // Questions
  {
    name: "second-answer-wins",
    mistake: "an answer to a question that is answered already takes the place of the first",
    rule: "only reachable states are stored",
    module: "domain/src/sandbox/rules/Command.ts",
    from: "if (question.by !== null || !isActive(sandbox.turn)) return",
    to: "if (!isActive(sandbox.turn)) return"
  },
  {
    name: "answered-for-the-person",
    mistake: "a question that expires is answered with what the agent may want to hear",
    rule: "no answer is given in a person's name",
    module: LIMIT,
    from: "closeQuestion(s, { question_id, by: \"timeout\" })",
    to: "closeQuestion(s, { question_id, by: \"timeout\", answers: { 1: { labels: [\"first\"] } } })"
  },
  {
    name: "answer-told-twice",
    mistake: "a worker tells the agent an answer again each time that the sandbox changes",
    rule: "an agent is told an answer once",
    module: "worker/src/turn/RunTurn.ts",
    from: "    asking.delete(questionId)\n",
    to: ""
  },
  {
    name: "question-outlives-turn",
    mistake: "a question stays open when its turn ends",
    rule: "the stored sandbox is what its log says",
    module: "domain/src/sandbox/rules/Transition.ts",
    from: "...questionsOf(sandbox).map(({ question_id }): SandboxEvent =>",
    to: "...questionsOf({ turn: null }).map(({ question_id }): SandboxEvent =>"
  },
  // Webhooks
  {
    name: "secret-for-ever",
    mistake: "a replaced secret of a webhook signs for ever",
    rule: "a replaced secret signs for a day, and no longer",
    module: WEBHOOK,
    from: "secrets.filter(({ until }) => until === null || DateTime.isGreaterThan(until, at))",
    to: "secrets.filter(({ until }) => until === null || DateTime.isGreaterThan(until, DateTime.makeUnsafe(0)) || at === until)"
  },
  {
    name: "failed-event-skipped",
    mistake: "an event that could not be delivered is passed over",
    rule: "an event that was not delivered holds up those behind it",
    module: WEBHOOK,
    from: "return { cursor: sequence - 1, failures: attempt, dueAt: next.at, disabled: null }",
    to: "return { cursor: sequence, failures: attempt, dueAt: next.at, disabled: null }"
  },
  {
    name: "notification-out-of-order",
    mistake: "the newest notification of a sandbox is sent before those that wait",
    rule: "notifications of a sandbox come in the order of its log",
    module: NOTIFICATIONS,
    from: "queued.get(sandboxId)?.find((one)",
    to: "queued.get(sandboxId)?.findLast((one)"
  },
  {
    name: "notification-lost",
    mistake: "an event that comes during an attempt at an earlier one of its sandbox is forgotten",
    rule: "a notification that is due arrives, or is recorded as failed",
    module: "domain/src/partner/rules/Notification.ts",
    from: "dueAt: now.newest > seq ? at : null",
    to: "dueAt: null"
  },
  {
    name: "gone-and-asked",
    mistake: "a receiver that is gone is tried again",
    rule: "what follows an attempt is as the table of attempts says",
    module: WEBHOOK,
    from: "if (outcome._tag === \"Answered\" && outcome.status === 410) return",
    to: "if (outcome._tag === \"Answered\" && outcome.status === 411) return"
  },
  {
    name: "one-attempt-more",
    mistake: "who does not answer for three days is tried once more",
    rule: "what follows an attempt is as the table of attempts says",
    module: WEBHOOK,
    from: "const scheduled = WAITS[attempt - 1]",
    to: "const scheduled = WAITS[attempt - 1] ?? (attempt === 10 ? WAITS[8] : undefined)"
  },
  {
    name: "hurried-by-the-receiver",
    mistake: "a receiver's Retry-After makes a wait shorter",
    rule: "an endpoint waits as the table of attempts says",
    module: WEBHOOK,
    from: "? scheduled : Duration.max(scheduled, asked)",
    to: "|| Duration.isZero(asked) ? scheduled : asked"
  },
  {
    name: "attempt-by-two",
    mistake: "what one worker has taken another one takes as well",
    rule: "an endpoint has one attempt at a time",
    module: WEBHOOKS,
    from: "DateTime.isGreaterThan(endpoint.dueAt, now) || !isFree(found, time)) continue",
    to: "DateTime.isGreaterThan(endpoint.dueAt, now)) continue"
  }
]

export const plantOf = (name: string): Plant | undefined => plants.find((plant) => plant.name === name)

/** From here on the module is loaded with the mistake in it. To be called before anything of it is imported. */
export const sow = ({ from, module, name, to }: Plant): void => {
  const url = new URL(`../../${module}`, import.meta.url).href
  registerHooks({
    load: (asked, context, next) => {
      const loaded = next(asked, context)
      if (asked !== url) return loaded
      const source = typeof loaded.source === "string" ? loaded.source : new TextDecoder().decode(loaded.source)
      if (source.split(from).length !== 2) {
        throw new Error(`The plant ${name} no longer fits ${module}: its place is there ${source.split(from).length - 1} times.`)
      }
      return { ...loaded, source: source.replace(from, () => to) }
    }
  })
}
