import { type Plants, plantsIn } from "./Plant.ts"

const behind = "cursor: event === undefined ? endpoint.cursor + events.length : event.sequence - 1"
const isOwn = "other.endpoint.grantId === endpoint.grantId"
const isListed = "filter((endpoint) => endpoint.grantId === grantId)"

export const plants: Plants = {
  port: "WebhookStore",
  subject: "packages/testing/test/partner/WebhookStore.suites.ts",
  plants: plantsIn("packages/domain/memory/partner/WebhookStoreMemory.ts", [
    ["tells a new endpoint what was before", "atHead(head, ", "atHead(0, "],
    ["lets a grant have one endpoint more", "others.length >= MAX_ENDPOINTS", "others.length > MAX_ENDPOINTS"],
    ["counts the endpoints of all grants together", isOwn, "true"],
    ["lists the endpoints of all grants", isListed, "filter(() => true)"],
    ["lists endpoints newest first", isListed, `${isListed}.toReversed()`],
    ["finds another grant's endpoint", "found?.endpoint.grantId === grantId", "found !== undefined"],
    ["signs with the new secret alone", "rotated(found.secrets, ", "rotated([], "],
    ["tells of enabling what was not disabled", "if (wasDisabled) yield*", "yield*"],
    ["passes over the event that failed when it is enabled", "...enabled(found.endpoint, at) }",
      "...enabled(found.endpoint, at), cursor: found.endpoint.cursor + 1 }"],
    ["begins a page of the log where the last one ended", "position < before", "position <= before"],
    ["tells the log oldest first", ".toReversed().slice(0, limit)", ".slice(0, limit)"],
    ["asks again for what is on its way", "if (!manual.has(eventId)) manual", "manual"],
    ["sends to disabled endpoints", "endpoint.disabled !== null || ", ""],
    ["waits until an attempt is due and longer", "DateTime.isGreaterThan(endpoint.dueAt, now)",
      "DateTime.isGreaterThanOrEqualTo(endpoint.dueAt, now)"],
    ["holds what is taken for longer", "DateTime.addDuration(now, TAKEN_TIME)", "DateTime.add(now, { minutes: 2 })"],
    ["lets what is taken run out by the caller's clock", "!isFree(found, time)", "!isFree(found, now)"],
    ["gives one attempt to two workers", " || !isFree(found, time)", ""],
    ["gives one manual attempt to two workers", " || !isFree(line, time)", ""],
    ["sends types that an endpoint does not want", "endpoint.types === null || endpoint.types.includes(type)", "true"],
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
    ["tells of a removal that was none", "yield* kept(key)\n      endpoints", "endpoints"]
  ])
}
