import { answered, refused } from "../client/Client.ts"
import {
  absent,
  count,
  digits,
  filled,
  fits,
  flag,
  holds,
  is,
  listOf,
  matching,
  nullOr,
  object,
  same,
  type Shape,
  Skip,
  text,
  timestamp,
  uuid
} from "../client/Expect.ts"
import { knows } from "../client/Names.ts"
import { turnId } from "../world/Identity.ts"
import { ASKED, type Box, CANARY, type Event, eventOf, HIDDEN, RECALLS, UNKNOWN, WORKED, type World } from "../world/World.ts"
import { tokens, usage, statuses } from "./CreationRules.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("events", "docs/decisions/5")
const running = { needs: ["repo"] } as const

/** More than a page of ours. Servers choose the limit of a page, but must have one. */
const PAGE_BYTES = 2 * 2 ** 20

const member = { open: true }
const commit = matching(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/u, "a commit")
const author = object({ id: matching(/^user_[0-9A-HJKMNP-TV-Z]{26}$/u, "user_ and a ULID") }, member)
const turnStates = ["pending", "running", "awaiting_approval", "awaiting_answer", "succeeded", "failed", "interrupted", "cancelled"]

/** The shape of an approval request. */
export const approvalRequest = object({ approval_id: filled, tool: text, expires_at: timestamp }, {
  optional: {
    kind: is("edit", "command", "network", "mcp", "other"),
    paths: listOf(text),
    preview: object({}, { optional: { command: text, diff: text, url: text, server: text, tool: text, arguments: text }, open: true })
  },
  open: true
})

const restored = object({ checkpoint: count, cause: is("machine_lost", "machine_drained", "command", "fork") }, {
  optional: { lost_turn: uuid, damaged: listOf(count) },
  open: true
})
const notRestored = object({ cause: is("command"), error: filled }, {
  optional: { damaged: listOf(count), checkpoint: absent },
  open: true
})

/** The catalogue: the required members of each type's `data`. Others may be added. */
const catalogue: Readonly<Record<string, Shape>> = {
  "sandbox.status": object({
    status: is(...statuses),
    previous: nullOr(is(...statuses)),
    reason: nullOr(text),
    initiator: is("user", "policy", "provider", "system")
  }, member),
  "sandbox.boot": object({ stage: is("provision", "clone", "setup", "mcp", "agent_start", "ready"), ms: count }, {
    optional: {
      repo: text,
      server: text,
      submodules: listOf(text),
      lfs_pointers: count,
      lfs_missing: listOf(object({ path: text, reason: text })),
      empty_submodules: listOf(object({ path: text, reason: text })),
      cache: is("hit", "miss", "none"),
      ignored: listOf(text),
      egress_refused: listOf(text),
      image_refused: text,
      secrets_withheld: text,
      error: text
    },
    open: true
  }),
  "sandbox.forked": object({ sandbox_id: filled, checkpoint: count }, member),
  "sandbox.continued": object({ repo: filled, branch: filled }, { optional: { pull_request: count, sandbox_id: filled }, open: true }),
  "sandbox.syncing": object({ repos: listOf(filled) }, member),
  "sandbox.synced": object({ branches: listOf(object({ repo: filled, branch: filled, sha: commit }, member)) }, {
    optional: { error: filled },
    open: true
  }),
  "sandbox.checkpoint": object({}, {
    optional: {
      checkpoint: count,
      turn_id: uuid,
      bytes: count,
      ms: count,
      repos: listOf(object({ repo: filled, sha: filled }, member)),
      error: filled
    },
    open: true
  }),
  "sandbox.restoring": object({ checkpoint: count }, member),
  "sandbox.restored": (data, path) => (typeof data === "object" && data !== null && "error" in data ? notRestored : restored)(data, path),
  "sandbox.error": object({ code: filled, message: filled, retryable: flag }, member),
  "turn.started": object({
    prompt_id: uuid,
    text,
    files: is([]),
    author
  }, member),
  "turn.updated": object({ state: is(...turnStates), previous: nullOr(is(...turnStates)) }, member),
  "turn.completed": object({ state: is("succeeded", "failed", "interrupted", "cancelled") }, {
    optional: { reason: text, initiator: text },
    open: true
  }),
  "message.updated": object({ part_id: filled, message_id: filled, kind: is("text", "reasoning"), text }, member),
  "message.queued": object({ message_id: uuid, position: count, text: filled, author, steers: flag }, member),
  "message.steered": object({ message_id: uuid, text: filled, author }, member),
  "message.cancelled": object({ message_id: uuid, reason: filled }, member),
  "message.completed": object({
    message_id: filled,
    finish: is("end_turn", "max_tokens", "refusal", "cancelled", "error")
  }, member),
  "tool.updated": object({
    part_id: filled,
    message_id: filled,
    call_id: filled,
    tool: text,
    status: is("pending", "running", "completed", "error")
  }, {
    optional: {
      error: text,
      parent_call_id: filled,
      kind: is("mcp"),
      detail: object({}, {
        optional: { command: text, paths: listOf(text), output: text, server: text, tool: text, arguments: text },
        open: true
      })
    },
    open: true
  }),
  "plan.updated": object({
    part_id: filled,
    entries: listOf(object({ text: filled, status: is("pending", "in_progress", "completed") }, member))
  }, member),
  "approval.requested": approvalRequest,
  "approval.resolved": object({
    approval_id: filled,
    outcome: is("approved", "denied"),
    by: is("user", "policy", "timeout", "interrupt", "terminate", "turn_end")
  }, { optional: { scope: is("turn"), reason: filled }, open: true }),
  "usage.updated": object({ usage }, { optional: { tokens }, open: true })
}

/** All events of the sandboxes of the rules. */
const everything = (world: World) =>
  world.evidence("everything", async () => {
    const failed = await world.readLog(await world.failed())
    const [restored, forked] = [await world.readLog((await world.restored()).box), await world.readLog((await world.forked()).box)]
    const queued = await world.readLog((await world.queued()).box)
    return [...await world.log(), ...await world.endedLog(), ...failed, ...restored, ...forked, ...queued]
  })

/** All events of a sandbox that continues a pull request and had a sync. */
const branchEvents = (world: World) => world.evidence("branch events", async () => world.readLog(await world.synced()))

/** Types of {@link branchEvents}: only rules about them need a pull request to continue. */
const OF_BRANCHES: ReadonlyArray<string> = ["sandbox.continued", "sandbox.syncing", "sandbox.synced"]

const shapeOf = (type: string, where: string) =>
  rule(`data-${type}`, `The data of ${type} is as the catalogue says.`, async (world) => {
    const found = (await (OF_BRANCHES.includes(type) ? branchEvents : everything)(world)).filter((event) => event.type === type)
    if (found.length === 0) throw new Skip(`nothing emitted ${type}: ${where}`)
    for (const event of found) fits(event.data.value, catalogue[type] ?? text, `data of ${type}`)
  }, running)

const parts = (log: ReadonlyArray<Event>, type: string) => log.filter((event) => event.type === type)

const page = async (world: World, box: Box, query: string) => {
  const { json } = answered(await world.get(box, `/events${query}`), 200, `events${query}`)
  return { events: json.at("data").items, nextCursor: json.at("nextCursor").value, json }
}

/** The rules of this file. */
export const rules = [
  rule(
    "envelope",
    "An envelope has object, version, id, ts, sandbox_id, type, data, in a turn turn_id, and nothing else.",
    async (world) => {
      const { id } = await world.worked()
      const envelope = object({
        object: is("sandbox.event"),
        version: is("v1"),
        id: digits,
        ts: timestamp,
        sandbox_id: is(id),
        type: filled,
        data: object({}, { open: true })
      }, { optional: { turn_id: uuid } })
      for (const { json } of await world.log()) fits(json.value, envelope, "event")
    },
    { ...running, source: "docs/interface.md 2.4a" }
  ),
  rule("ids", "Ids are digits, start at 1 and strictly increase.", async (world) => {
    const ids = (await world.log()).map(({ json }) => json.at("id").string)
    holds(ids.every((id) => /^[1-9]\d*$/u.test(id)), "ids of digits", ids)
    same(ids[0], "1", "first id")
    ids.reduce((previous, id) => {
      holds(Number(id) > Number(previous), `an id above ${previous}`, id)
      return id
    }, "0")
  }, running),
  rule("time", "Events never go back in time.", async (world) => {
    const at = (await world.log()).map(({ json }) => json.at("ts").string)
    same(at, [...at].sort(), "ts")
  }, running),
  ...Object.keys(catalogue).map((type) => shapeOf(type, "the offline agent need not")),
  rule("turn-id", "Events inside a turn name it, those before the first turn do not.", async (world) => {
    const { id } = await world.worked()
    for (const { data, turnId: turn, type } of await world.log()) {
      if (/^(?:turn|message|tool|approval|question)\./u.test(type)) same(turn, turnId(id, 1), `turn_id of ${type}`)
      if (type === "sandbox.boot" || (type === "sandbox.status" && data.at("status").value !== "terminated")) {
        same(turn, undefined, `turn_id of ${type}`)
      }
    }
  }, running),
  rule("turn-id-derived", "turn_id and prompt_id of turn n are the UUIDv5 of <id>/turn/<n>.", async (world) => {
    const { box, n } = await world.hanging()
    const started = parts(await world.readLog(box), "turn.started")
    const ids = started.map(({ turnId: turn }) => turn)
    same(
      ids,
      // A turn that was interrupted before an agent took it never started; the last turn started.
      Array.from({ length: n }, (_, i) => turnId(box.id, i + 1)).filter((id, i) => i === n - 1 || ids.includes(id)),
      "turn ids"
    )
    same(started.map(({ data }) => data.at("prompt_id").value), started.map(({ turnId: turn }) => turn), "prompt ids")
  }, { ...running, source: "docs/decisions/2.2" }),
  rule("prompt", "turn.started has the prompt's text.", async (world) => {
    const [started] = parts(await world.log(), "turn.started")
    holds(
      started?.data.at("text").string.startsWith("Conformance: work.\n[[") === true,
      "the prompt as it was given",
      started?.data.at("text").value
    )
  }, running),
  rule("turn-end", "turn.completed is the last event of its turn.", async (world) => {
    for (const log of [await world.log(), await world.endedLog()]) {
      const turn = log.findLast(({ turnId: turn }) => turn !== undefined)
      same(turn?.type, "turn.completed", "the last event of a turn")
    }
  }, running),
  rule(
    "message-order",
    "Only the last message of a turn is completed, once, when all else of the turn was told: clients stop there.",
    async (world) => {
      const log = await world.log()
      const work = log.filter(({ type }) => type === "message.updated" || type === "tool.updated")
      const last = parts(log, "message.updated").at(-1)
      const completed = parts(log, "message.completed")
      same(
        completed.map(({ data }) => data.at("message_id").value),
        [last?.data.at("message_id").value],
        "messages that were completed"
      )
      holds(
        work.every(({ id }) => id < (completed[0]?.id ?? 0)),
        "texts and tool calls before message.completed only",
        completed[0]?.id
      )
    },
    running
  ),
  rule(
    "waiting",
    "Messages wait during a turn alone, each leaves once and in order: taken into that turn, cancelled, or as the turn right behind it.",
    async (world) => {
      const { box } = await world.queued()
      const waiting: Array<{ readonly id: string; readonly text: string; readonly steers: boolean }> = []
      let active: string | undefined
      let isOver = false
      for (const { data, turnId: turn, type } of await world.readLog(box)) {
        if (isOver && waiting.length > 0) same(type, "turn.updated", "what comes behind the end of a turn while messages wait")
        isOver = type === "turn.completed"
        if (type === "message.queued") {
          const steers = data.at("steers").value === true
          const place = steers ? waiting.filter((message) => message.steers).length : waiting.length
          holds(active !== undefined, "message.queued during a turn alone", data.value)
          same([turn, data.at("position").value], [undefined, place + 1], "turn_id and position of message.queued")
          waiting.splice(place, 0, { id: data.at("message_id").string, text: data.at("text").string, steers })
        } else if (type === "message.steered" || type === "message.cancelled") {
          const at = waiting.findIndex(({ id }) => id === data.at("message_id").value)
          const [message] = at < 0 ? [] : waiting.splice(at, 1)
          holds(message !== undefined, `the message_id of ${type} to be a waiting message`, data.value)
          const isSteered = type === "message.steered"
          same(turn, isSteered ? active : undefined, `turn_id of ${type}`)
          if (isSteered) same([message?.steers, message?.text], [true, data.at("text").value], "what message.steered tells of")
        } else if (type === "turn.updated" && data.at("state").value === "pending") {
          const next = waiting.shift()
          if (next !== undefined) same([turn, data.at("text").value], [next.id, next.text], "turn_id and text of the next turn")
          active = turn
        } else if (isOver) active = undefined
      }
      same(waiting, [], "messages that wait in the end")
    },
    { ...running, source: "docs/decisions/18" }
  ),
  rule("part-order", "The final text of a part comes before anything of the next part.", async (world) => {
    const over = new Set<string>()
    let current = ""
    for (const { data, type } of await world.log()) {
      if (type !== "message.updated" && type !== "tool.updated") continue
      const part = data.at("part_id").string
      // A call may continue beside a text.
      if (type === "tool.updated" && data.at("status").value !== "pending") continue
      holds(!over.has(part), `no more of ${part} once the next part began`, data.value)
      if (current !== "" && current !== part) over.add(current)
      current = part
    }
  }, running),
  rule("answer", "Thought and text of one answer share a message_id; the next answer has another.", async (world) => {
    const ids = new Map(
      parts(await world.log(), "message.updated").map((
        { data }
      ) => [data.at("text").string.trim(), data.at("message_id").string])
    )
    const answer = ids.get("I will change some files.")
    same(ids.get("Looking around."), answer, "message_id of the thought before an answer")
    holds(ids.get("Done.") !== answer, "another message_id after a tool call", answer)
  }, running),
  rule("whole-text", "message.updated has the whole text so far.", async (world) => {
    const texts = new Map<string, string>()
    for (const { data } of parts(await world.log(), "message.updated")) {
      const part = data.at("part_id").string
      const before = texts.get(part) ?? ""
      holds(
        data.at("text").string.startsWith(before),
        `a text that starts with ${JSON.stringify(before.slice(0, 40))}`,
        data.at("text").value
      )
      texts.set(part, data.at("text").string)
    }
    const all = [...texts.values()].map((value) => value.trim())
    for (const said of ["Looking around.", "I will change some files.", "Done."]) {
      holds(all.includes(said), `the text ${said}`, all)
    }
    holds(all.some((value) => value.startsWith("word1 ") && value.endsWith("word12")), "a text of 12 words", all)
  }, running),
  rule("kinds", "Answers are text, thoughts are reasoning.", async (world) => {
    const kinds = new Map(
      parts(await world.log(), "message.updated").map((
        { data }
      ) => [data.at("text").string.trim(), data.at("kind").value])
    )
    same([kinds.get("Looking around."), kinds.get("Done.")], ["reasoning", "text"], "kinds")
  }, running),
  rule("message-parts", "A part of a message is <message_id>:text or <message_id>:thought.", async (world) => {
    for (const { data } of parts(await world.log(), "message.updated")) {
      const end = data.at("kind").value === "text" ? "text" : "thought"
      same(data.at("part_id").value, `${data.at("message_id").string}:${end}`, "part_id")
    }
  }, running),
  rule("tool-parts", "A tool's part is tool:<call_id>, its message turn-tools:<turn_id>.", async (world) => {
    for (const { data, turnId: turn } of parts(await world.log(), "tool.updated")) {
      same([data.at("part_id").value, data.at("message_id").value], [
        `tool:${data.at("call_id").string}`,
        `turn-tools:${turn}`
      ], "part_id and message_id")
    }
  }, running),
  rule("plan", "A plan is told whole, as part plan:<turn_id>, its steps as the agent gave them.", async (world) => {
    const plans = parts(await world.log(), "plan.updated")
    if (plans.length === 0 && !knows(world.options.names, "plan")) throw new Skip("the server's agent shows no plan")
    for (const { data, turnId: turn } of plans) same(data.at("part_id").value, `plan:${turn}`, "part_id")
    same(plans.at(-1)?.data.at("entries").value, [
      { text: "Look around", status: "completed" },
      { text: "Change files", status: "in_progress" },
      { text: "Say so", status: "pending" }
    ], "entries")
  }, running),
  rule("tool-ends", "Each tool call ends, completed or with an error.", async (world) => {
    const last = new Map(
      parts(await world.log(), "tool.updated").map(({ data }) => [data.at("call_id").string, data.at("status").string])
    )
    same([...last.values()], ["completed", "completed", "error"], "how the tool calls of the script ended")
  }, running),
  rule("throttled", "A part is updated at most every 250 ms, but for its last text.", async (world) => {
    const times = new Map<string, Array<number>>()
    for (const { data, json } of parts(await world.log(), "message.updated")) {
      const part = data.at("part_id").string
      times.set(part, [...times.get(part) ?? [], Date.parse(json.at("ts").string)])
    }
    for (const at of times.values()) {
      const gaps = at.slice(1, -1).map((time, i) => time - (at[i] ?? 0))
      // The intervals vary a little with clocks and transactions.
      holds(gaps.every((gap) => gap >= 200), "updates of a part 250 ms apart", gaps)
      holds(at.length <= 6, "a handful of updates for 12 words in 0.7 s", at.length)
    }
  }, running),
  rule("completed-ids", "message.completed and turn.completed are events with ids of their own.", async (world) => {
    const log = await world.log()
    const ids = [...parts(log, "message.completed"), ...parts(log, "turn.completed")].map(({ json }) => json.at("id").string)
    holds(new Set(ids).size === ids.length && parts(log, "turn.completed").length === 1, "distinct ids", ids)
  }, running),
  rule("approval-call", "approval_id is the call_id of a tool call, and the approval expires later.", async (world) => {
    const log = await world.endedLog()
    const [asked] = parts(log, "approval.requested")
    const calls = parts(log, "tool.updated").map(({ data }) => data.at("call_id").string)
    holds(
      calls.includes(asked?.data.at("approval_id").string ?? ""),
      "the call_id of a tool call",
      asked?.data.at("approval_id").value
    )
    holds(
      (asked?.data.at("expires_at").string ?? "") > (asked?.json.at("ts").string ?? ""),
      "expires_at after ts",
      asked?.data.at("expires_at").value
    )
  }, running),
  rule(
    "approval-whole",
    "An approval shows the whole command with its line feeds, and what is hidden in it by name.",
    async (world) => {
      const [asked] = parts(await world.endedLog(), "approval.requested")
      const shown = asked?.data.at("preview").at("command").string ?? ""
      const [before = "", after = ""] = ASKED.split(HIDDEN)
      holds(shown.startsWith(before) && shown.endsWith(after), "the command from beginning to end", shown)
      holds(/^\S[^]*\S$/u.test(shown.slice(before.length, -after.length)), "a name for U+202E", shown)
      holds(!JSON.stringify(asked?.json.value).includes(HIDDEN), "no U+202E in approval.requested", asked?.json.value)
    },
    running
  ),
  rule("tool-detail", "A tool call tells its whole command, and at its end the end of what it wrote.", async (world) => {
    const log = parts(await world.log(), "tool.updated")
    const ended = log.filter(({ data }) => ["completed", "error"].includes(data.at("status").string))
    const shell = ended.find(({ data }) => data.at("detail").value !== undefined && data.at("detail").at("command").value !== undefined)
    const detail = shell?.data.at("detail")
    holds(
      detail?.at("command").string.startsWith("mkdir -p conformance/dir") === true &&
        detail.at("command").string.endsWith(WORKED),
      "the command from beginning to end",
      shell?.data.value
    )
    same(detail?.at("output").string.trim(), "worked", "output")
  }, running),
  rule("no-arguments", "Arguments of tools leave as preview and detail only.", async (world) => {
    for (const log of [await world.log(), await world.endedLog()]) {
      for (const { data, type } of log) {
        if (/^(?:tool|approval)\./u.test(type)) {
          const { detail: _detail, preview: _preview, ...rest } = data.value as Record<string, unknown>
          holds(!JSON.stringify(rest).includes(CANARY), `no content of a written file in ${type}`, rest)
        }
      }
    }
  }, running),
  rule(
    "page",
    "A page has at most limit events; nextCursor is its last id and goes on right after it.",
    async (world) => {
      const box = await world.worked()
      const log = (await world.log()).map(({ json }) => json.value)
      const first = await page(world, box, "?limit=3")
      same(first.events.map(({ value }) => value), log.slice(0, 3), "the first page")
      same(first.nextCursor, String(first.events.at(-1)?.at("id").value), "nextCursor")
      same([...first.json.keys].sort(), ["data", "nextCursor"], "members of a page")
      const second = await page(world, box, `?limit=3&after=${String(first.nextCursor)}`)
      same(second.events.map(({ value }) => value), log.slice(3, 6), "the second page")
    },
    running
  ),
  rule(
    "page-bytes",
    "A page has 2 MiB at most, whatever its limit; nextCursor goes on right after it, until a page is empty.",
    async (world) => {
      const box = await world.large()
      const sizes: Array<number> = []
      const texts: Array<number> = []
      for (let after = "0";;) {
        const reply = answered(await world.get(box, `/events?limit=100&after=${after}`), 200, "a list of events")
        holds(reply.bytes.length <= PAGE_BYTES, `a page of at most ${PAGE_BYTES} bytes`, reply.bytes.length)
        const events = reply.json.at("data").items.map(eventOf)
        const cursor = reply.json.at("nextCursor").string
        same(cursor, events.at(-1)?.json.at("id").string ?? after, "nextCursor")
        if (events.length === 0) break
        sizes.push(reply.bytes.length)
        texts.push(...events.flatMap(({ data, type }) => type === "message.updated" ? Buffer.byteLength(data.at("text").string) : []))
        after = cursor
      }
      holds(texts.filter((bytes) => bytes >= 200_000).length >= RECALLS, `${RECALLS} texts of 200,000 bytes on all pages`, texts)
      holds(sizes.length > 1, "several pages", sizes)
    },
    { ...running, source: "docs/decisions/1" }
  ),
  rule("after-0", "after=0 is the beginning, and what is meant without after.", async (world) => {
    const box = await world.worked()
    same((await page(world, box, "?after=0")).json.value, (await page(world, box, "")).json.value, "after=0")
  }, running),
  rule("empty-page", "An empty page keeps the cursor.", async (world) => {
    const box = await world.ended()
    const head = (await world.endedLog()).at(-1)?.json.at("id").string
    const { events, nextCursor } = await page(world, box.box, `?after=${head}`)
    same([events.length, nextCursor], [0, head], "events and nextCursor")
  }, running),
  rule("ahead", "A cursor ahead of the newest event is 400 invalid_cursor.", async (world) => {
    const { box } = await world.ended()
    const head = Number((await world.endedLog()).at(-1)?.id)
    for (const after of [head + 1, Number.MAX_SAFE_INTEGER]) {
      refused(await world.get(box, `/events?after=${after}`), 400, "invalid_cursor", `after=${after}`)
    }
  }, running),
  rule("malformed", "A cursor that is no digits is 400 invalid_cursor.", async (world) => {
    for (const after of ["abc", "-1", "1.5", "1e1", "%2B1", ""]) {
      refused(await world.http.ask(`${UNKNOWN}/events?after=${after}`), 400, "invalid_cursor", `after=${after}`)
    }
  }),
  rule("limit", "limit is 1 to 100.", async (world) => {
    for (const limit of [0, 101]) {
      refused(await world.http.ask(`${UNKNOWN}/events?limit=${limit}`), 400, "invalid_request", `limit=${limit}`)
    }
    const box = await world.worked()
    same((await page(world, box, "?limit=1")).events.length, 1, "events for limit=1")
    await page(world, box, "?limit=100")
  }, running)
]
