import { type Plants, plantsIn } from "./Plant.ts"

const behind = "cursor: event === undefined ? endpoint.cursor + events.length : event.sequence - 1"
const isOwn = "other.endpoint.grantId === endpoint.grantId"
const isListed = "filter((endpoint) => endpoint.grantId === grantId)"

export const plants: Plants = {
  port: "WebhookStore",
  subject: "packages/testing/test/partner/WebhookStore.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/partner/MemoryNotifications.ts", [
      ["tells other grants of sandboxes", "listener.grantId === grantId", "true"],
      ["starts a line after its first event", "progress: { cursor: seq - 1,", "progress: { cursor: seq,"],
      ["keeps every undelivered notification", ".slice(-MAX_QUEUED)", ""],
      ["makes the next event of a sandbox due before the retry", "dueAt: line.progress.dueAt ?? at", "dueAt: at"],
      ["tells of the title before the event", "sandbox: { title, status,", "sandbox: { title: \"\", status,"]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/SandboxStoreMemory.ts", [
      ["queues no notification", "    notifications?.write(", "    if (row.log.length === 0) notifications?.write("]
    ]),
    ...plantsIn("packages/domain/memory/partner/NotificationsMemory.ts", [
      ["holds what is taken for longer", "DateTime.addDuration(now, TAKEN_TIME)", "DateTime.add(now, { minutes: 2 })"],
      ["gives a line to two workers", "DateTime.isLessThanOrEqualTo(dueAt, now) && isFree(line, time)",
        "DateTime.isLessThanOrEqualTo(dueAt, now)"],
      ["sends notifications out of order", "queued.get(sandboxId)?.find((one)", "queued.get(sandboxId)?.findLast((one)"],
      ["does not wait for the retry of a notification", "dueAt !== null && DateTime.isLessThanOrEqualTo(dueAt, now) &&",
        "dueAt !== null &&"],
      ["sends notifications to disabled endpoints", "if (disabled !== null) return []", ""],
      ["gives an endpoint that accepts nothing as many attempts", "refusingSince === null ? MAX_AT_ENDPOINT : MAX_AT_REFUSING",
        "MAX_AT_ENDPOINT"],
      ["gives one endpoint all attempts", "      .slice(0, Math.max(0,", "      .slice(0, 100 + Math.max(0,"],
      ["gives one grant all attempts", "byPlace.filter(({ place }) => place <= MAX_OF_GRANT)", "byPlace.slice()"],
      ["gives the longest due of all grants first", "place <= MAX_OF_GRANT).sort((a, b) => a.place - b.place || ",
        "place <= MAX_OF_GRANT).sort((a, b) => "],
      ["sends events that are gone from the log", "&& one.isKept() &&", "&&"],
      ["counts every attempt at a notification as the first", "one.line.progress.failures + 1", "1"],
      ["takes the record of a worker that lost a notification", "held?.fence !== fence || held.until", "held === undefined || held.until"],
      ["takes the record of a notification twice", " || held.until === null) return", ") return"],
      ["sends a repeated notification again and again", "kept.manualNotifications.delete(eventId)", "if (held !== line) held.until = null"],
      ["takes a failure of before the endpoint was enabled", "standingOf(kept.endpoint.refusingSince, next, at, isLate)",
        "standingOf(kept.endpoint.refusingSince, next, at, false)"],
      ["does not disable an endpoint that accepts nothing", "disabled: { at, reason: disable }", "disabled: null"],
      ["does not tell that an endpoint accepts nothing", "yield* audit.append([told(\"webhook.disabled\"",
        "void ([told(\"webhook.disabled\""],
      ["forgets notifications that are as old as they may be", "DateTime.isLessThan(at, before)",
        "DateTime.isLessThanOrEqualTo(at, before)"],
      ["forgets all old notifications at once", "old.reverse().slice(0, limit)", "old.reverse()"]
    ]),
    ...plantsIn("packages/domain/src/partner/rules/Notification.ts", [
      ["does not count a failed sandbox as ended", "[\"sandbox.failed\", \"sandbox.ended\"]", "[\"sandbox.failed\"]"],
      ["sends a skipped event again", "if (next._tag === \"Skip\") return done", ""],
      ["forgets that an endpoint was enabled during an attempt at a notification", "!DateTime.Equivalence(dueAt, now.dueAt)", "false"],
      ["disables after less than a day", "DateTime.addDuration(since, REFUSING_TIME)", "DateTime.add(since, { hours: 23 })"],
      ["forgets since when nothing is accepted", "const since = refusingSince ?? at", "const since = at"],
      ["counts what was refused before something was accepted",
        "if (next._tag === \"Delivered\") return { refusingSince: null, disable: null }",
        "if (next._tag === \"Delivered\") return { refusingSince, disable: null }"]
    ]),
    ...plantsIn("packages/domain/memory/partner/WebhookStoreMemory.ts", [
      ["tells a new endpoint what was before", "atHead(head, ", "atHead(0, "],
      ["lets a grant have one endpoint more", "others.length >= MAX_ENDPOINTS", "others.length > MAX_ENDPOINTS"],
      ["counts the endpoints of all grants together", isOwn, "true"],
      ["lists the endpoints of all grants", isListed, "filter(() => true)"],
      ["lists endpoints newest first", isListed, `${isListed}.toReversed()`],
      ["finds another grant's endpoint", "found?.endpoint.grantId === grantId", "found !== undefined"],
      ["signs with the new secret alone", "rotated(found.secrets, ", "rotated([], "],
      ["tells of enabling what was not disabled", "if (wasDisabled) yield*", "yield*"],
      ["passes over the event that failed when it is enabled", "...enabled(found.endpoint, at), refusingSince: null }",
        "...enabled(found.endpoint, at), refusingSince: null, cursor: found.endpoint.cursor + 1 }"],
      ["begins a page of the log where the last one ended", "position < before", "position <= before"],
      ["tells the log oldest first", ".toReversed().slice(0, limit)", ".slice(0, limit)"],
      ["asks again for what is on its way", "if (!manual.has(eventId)) manual", "manual"],
      ["sends to disabled endpoints", "endpoint.disabled !== null || ", ""],
      ["waits until an attempt is due and longer", "DateTime.isGreaterThan(endpoint.dueAt, now)",
        "DateTime.isGreaterThanOrEqualTo(endpoint.dueAt, now)"],
      ["lets what is taken run out by the caller's clock", "!isFree(found, time)", "!isFree(found, now)"],
      ["gives one attempt to two workers", "!isFree(found, time)", "false"],
      ["gives one manual attempt to two workers", " || !isFree(line, time)", ""],
      ["sends types that an endpoint does not want", "wanted === null || wanted.includes(type)", "true"],
      ["reads again what an endpoint does not want", behind, "cursor: endpoint.cursor"],
      ["counts every attempt as the first", "endpoint.failures + 1", "1"],
      ["lets what is asked for wait for the line", "Math.ceil(limit / 2)", "limit"],
      ["lets the line wait for what is asked for", "Math.ceil(limit / 2)", "0"],
      ["sends first what was asked for last", "const [line] = manual.values()", "const line = Array.from(manual.values()).at(-1)"],
      ["gives more than it was asked for", "attempts.length + due.length === limit", "false"],
      ["takes the record of a worker that lost the attempt", "line?.fence !== fence || line.until", "line === undefined || line.until"],
      ["takes a record twice", " || line.until === null) return", ") return"],
      ["sends what was asked for again and again", "found.manual.delete(event.id)", "line.until = null"],
      ["sends for revoked grants", " || grant.revokedAt !== null", ""],
      ["sends for suspended organizations", " || suspendedAt === null)", " || true)"],
      ["does not tell that an endpoint was disabled", "next._tag === \"Disable\" && standing.disabled !== null", "false"],
      ["tells that an endpoint was disabled that was enabled meanwhile", " && standing.disabled !== null", ""],
      ["forgets that an endpoint was enabled during an attempt", "next, at, found.endpoint.dueAt)", "next, at, dueAt)"],
      ["forgets what is as old as it may be", "DateTime.isLessThan(at, before)", "DateTime.isLessThanOrEqualTo(at, before)"],
      ["forgets the log at once", ".slice(0, limit - purged)", ""],
      ["forgets so many attempts of each endpoint", ".slice(0, limit - purged)", ".slice(0, limit)"],
      ["lets each new secret sign with all those before it again", "rotated(found.secrets, secret, at)",
        "rotated(found.secrets.map((kept) => kept.until === null ? kept : { ...kept, until: DateTime.add(at, { days: 1 }) }), secret, at)"],
      ["tells of a removal that was none", "yield* kept(key)\n      endpoints", "endpoints"],
      ["sends the feed to an endpoint of notifications alone", "feedTypes(endpoint.types)?.length === 0 || ", ""],
      ["leaves the lines of an endpoint waiting when it is enabled", "dueAt: dueAt === null ? null : at }", "dueAt }"],
      ["counts an event of the feed that was accepted for nothing", "next._tag === \"Delivered\" ? null : found.endpoint.refusingSince",
        "found.endpoint.refusingSince"],
      ["repeats a notification twice", "if (!manualNotifications.has(eventId)) manualNotifications", "manualNotifications"]
    ])
  ]
}
