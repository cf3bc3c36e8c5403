/** Pull requests and messages. */
import { answered, refused, type Reply } from "../client/Client.ts"
import {
  count,
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
import { derived, turnId } from "../world/Identity.ts"
import { type Box, INTERRUPTED, unique, UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("pull-request", "docs/decisions/7")
const running = { needs: ["repo"] } as const

const pullRequest: Shape = object({
  id: count,
  nodeId: filled,
  number: count,
  url: filled,
  title: text,
  state: is("open", "closed"),
  draft: flag,
  merged: flag,
  baseRef: filled,
  headRef: filled,
  headSha: matching(/^(?:[0-9a-f]{40}|[0-9a-f]{64})$/u, "a commit id"),
  createdAt: timestamp,
  updatedAt: timestamp,
  additions: count,
  deletions: count,
  changedFiles: count
})
const statusShape: Shape = object({
  actionState: is("idle", "publishing", "updating", "failed"),
  checks: object({
    label: text,
    runs: listOf(object({
      id: count,
      name: text,
      createdAt: text,
      event: text,
      headBranch: text,
      headSha: text,
      runNumber: count,
      status: text,
      updatedAt: text,
      url: text
    }, { optional: { conclusion: text } })),
    checkRuns: listOf(
      object({ id: count, name: text, status: text, url: text }, {
        optional: { conclusion: text, completedAt: text, startedAt: text }
      })
    ),
    state: is("idle", "pending", "success", "failure", "error")
  }, { optional: { error: text, updatedAt: text } }),
  comments: listOf(
    object({ id: count, title: text, author: text, authorAvatarUrl: text, createdAt: text, updatedAt: text, url: text })
  ),
  pullRequest: nullOr(pullRequest),
  repository: filled,
  detailsPending: flag
})

/** Requests until a publication ends, each of which waits for 20 seconds. */
const MAX_TRIES = 6

const status = (reply: Reply, to: string) => answered(reply, 200, to).json

/** A sandbox that was published at least once. */
const published = async (world: World) => {
  const box = await world.changed()
  const first = await world.session.fixture(
    "published",
    async () => status(await box.ask("/pull-request", { method: "POST" }), "publishing")
  )
  return { box, number: first.at("pullRequest").at("number").number }
}

/** The rules of this file. */
export const rules = [
  rule("before", "Before anything is published, pullRequest is null and everything idle.", async (world) => {
    const json = status(await world.get(await world.busy(), "/pull-request"), "the pull request")
    fits(json.value, statusShape, "")
    same([json.at("actionState").value, json.at("checks").at("state").value, json.at("pullRequest").value], [
      "idle",
      "idle",
      null
    ], "actionState, checks.state and pullRequest")
  }, running),
  rule("draft", "Publishing opens a draft pull request of slipway/<id> with the sandbox's title.", async (world) => {
    const { box } = await published(world)
    const found = status(await world.post(box, "/pull-request"), "publishing").at("pullRequest")
    if (world.options.contract) {
      return same([found.at("draft").value, found.at("state").value], [true, "open"], "draft and state")
    }
    const given = ["draft", "state", "merged", "headRef", "title"].map((name) => found.at(name).value)
    same(
      given,
      [true, "open", false, `slipway/${box.id}`, "Conformance: publish."],
      "draft, state, merged, headRef and title"
    )
    holds(
      found.at("changedFiles").number > 0 && found.at("additions").number > 0,
      "changed files and additions",
      found.value
    )
  }, { ...running, source: "docs/interface.md 4.7" }),
  rule("shape", "The reply has every field, of a pull request too, and no other.", async (world) => {
    const { box } = await published(world)
    const json = status(await world.post(box, "/pull-request", {}), "publishing")
    fits(json.value, statusShape, "")
    fits(json.at("pullRequest").value, pullRequest, "pullRequest")
    same(
      [json.at("actionState").value, json.at("repository").value],
      ["idle", world.repo],
      "actionState and repository"
    )
  }, { ...running, source: "docs/interface.md 2.5" }),
  rule("once", "Publishing again, one after the other or at once, keeps the pull request.", async (world) => {
    const { box, number } = await published(world)
    const replies = [
      await world.post(box, "/pull-request"),
      ...await Promise.all([1, 2, 3].map(() => world.post(box, "/pull-request")))
    ]
    same(replies.map((reply) => status(reply, "publishing again").at("pullRequest").at("number").value), [
      number,
      number,
      number,
      number
    ], "numbers")
  }, running),
  rule("get", "GET gives what publishing gave.", async (world) => {
    const { box, number } = await published(world)
    const json = status(await world.get(box, "/pull-request"), "the pull request")
    fits(json.value, statusShape, "")
    same(json.at("pullRequest").at("number").value, number, "number")
  }, { ...running, source: "docs/decisions/8" }),
  rule("update", "Publishing a further change pushes it to the same pull request.", async (world) => {
    const { box, number } = await published(world)
    const before = status(await world.get(box, "/pull-request"), "the pull request").at("pullRequest").at("headSha").string
    await box.turnEnd(await box.say(`Conformance: [[write path=conformance/more.txt content=${unique()}]]`))
    const after = status(await world.post(box, "/pull-request"), "publishing a further change").at("pullRequest")
    same(after.at("number").value, number, "number")
    holds(after.at("headSha").string !== before, "another headSha", before)
  }, running),
  rule(
    "ready",
    "ready: true ends the draft after the publication, also where nothing is new; false and nothing leave it as it is.",
    async (world) => {
      const box = await world.session.fixture("ready", async () => {
        const prompt = `Conformance: ready. [[write path=conformance/ready.txt content=${unique()}]]`
        const box = await world.session.box(world.creation({ prompt }))
        await box.firstEnd()
        return box
      })
      /** A publication that is still under way after 20 seconds has to be asked for again. */
      const publish = async (body: object) => {
        for (let tries = 1;; tries++) {
          const found = status(await world.post(box, "/pull-request", body), JSON.stringify(body))
          if (found.at("actionState").value === "idle") return found.at("pullRequest")
          holds(tries < MAX_TRIES, "the publication to end", found.at("actionState").value)
        }
      }
      const number = (await publish({ ready: false })).at("number").number
      for (const body of [{ ready: true }, { ready: true }, { ready: false }, {}]) {
        const found = await publish(body)
        same(["number", "draft", "state"].map((name) => found.at(name).value), [number, false, "open"], "number, draft and state")
      }
      const got = status(await world.get(box, "/pull-request"), "the pull request").at("pullRequest")
      same([got.at("number").value, got.at("draft").value], [number, false], "number and draft of the pull request")
    },
    { ...running, source: "docs/decisions/7" }
  ),
  rule("events", "Publishing shows as pull_request.updated, with number, url and state.", async (world) => {
    const { box, number } = await published(world)
    const found = (await world.readLog(box)).filter(({ type }) => type === "pull_request.updated").map(({ data }) => data)
    for (const data of found) {
      fits(
        data.value,
        object({ repo: is(world.repo), action_state: is("idle", "publishing", "updating", "failed") }, {
          optional: {
            number: count,
            url: filled,
            state: is("open", "closed"),
            draft: flag,
            merged: flag,
            head_ref: filled,
            head_sha: filled,
            merges: listOf(object({ onto: filled, ancestor: nullOr(filled) })),
            submodules: listOf(filled)
          },
          open: true
        }),
        "data of pull_request.updated"
      )
    }
    holds(
      found.some((data) => data.at("action_state").value === "idle" && data.at("number").value === number),
      `an idle sandbox with number ${number}`,
      found.at(-1)?.value
    )
  }, { ...running, source: "docs/decisions/5" }),
  rule("nothing", "Without a change to publish: 409 invalid_request, no sandbox changes to publish.", async (world) => {
    const reply = refused(
      await world.post(await world.busy(), "/pull-request"),
      409,
      "invalid_request",
      "publishing nothing"
    )
    same(reply.json.at("error").at("message").value, "no sandbox changes to publish", "message")
  }, running),
  rule(
    "body",
    "The body is {repo?, ready?} and nothing else; a repo that is not in the sandbox is 404 repo_not_found.",
    async (world) => {
      const box = await world.busy()
      for (const body of [{ draft: false }, { repo: "nonsense" }, { repo: null }, { ready: "yes" }]) {
        refused(await world.post(box, "/pull-request", body), 400, "invalid_request", JSON.stringify(body))
      }
      refused(
        await world.post(box, "/pull-request", { repo: "conformance/other" }),
        404,
        "repo_not_found",
        "another repository"
      )
      refused(
        await world.get(box, "/pull-request?repo=conformance/other"),
        404,
        "repo_not_found",
        "another repository in the query"
      )
    },
    running
  ),
  rule("repo-required", "With several repositories repo is needed: 400 repo_required.", async (world) => {
    const box = await world.several()
    refused(await world.post(box, "/pull-request"), 400, "repo_required", "publishing")
    refused(await world.get(box, "/pull-request"), 400, "repo_required", "the pull request")
    const second = status(await world.post(box, "/pull-request", { repo: world.secondRepo }), "publishing the second")
    same(
      [second.at("repository").value, second.at("pullRequest").at("draft").value],
      [world.secondRepo, true],
      "repository and draft"
    )
  }, { needs: ["repo", "second-repo"] }),
  rule("not-running", "Publishing a sandbox that does not run is 409 sandbox_not_running.", async (world) => {
    refused(await world.post((await world.ended()).box, "/pull-request"), 409, "sandbox_not_running", "publishing")
  }, running)
]

// ---------------------------------------------------------------------------------------------------------------

const message = rulesOf("messages", "docs/decisions/8")
const waiting = { ...running, source: "docs/decisions/18" } as const

const send = async (world: World, prompt: string, headers: Record<string, string> = {}) => {
  const box = await world.resting()
  return { box, reply: await world.post(box, "/messages", { prompt }, { headers }) }
}

/** The answer to a message that waited. */
const WAITED = "Conformance: [[say Waited.]]"

/** Sends messages during a turn that ends only by an interrupt. Returns the ids of the turns that they wait for. */
const wait = async (world: World, ...whenBusy: ReadonlyArray<"queue" | "steer">) => {
  const waiting = await world.waiting()
  const turns: Array<string> = []
  for (const value of whenBusy) {
    const reply = await world.post(waiting.box, "/messages", { prompt: WAITED, whenBusy: value })
    turns.push(answered(reply, 201, `a message with whenBusy ${value}`).json.at("turnId").string)
  }
  return { ...waiting, turns }
}

/** The log from the beginning of that turn. */
const logSince = async (world: World, box: Box, turn: string) => {
  const log = await world.readLog(box)
  return log.slice(log.findIndex(({ turnId, type }) => type === "turn.started" && turnId === turn))
}

/** The messages of a finished conversation. */
const list = async (world: World, query = "") => status(await world.get(await world.worked(), `/messages${query}`), `messages${query}`)

/** The rules of this file. */
export const messages = [
  message(
    "sent",
    "A message is 201 with commandId, revision, outcome applied and turnId, and nothing else.",
    async (world) => {
      const { reply } = await send(world, "Conformance: [[say Sent.]]")
      fits(
        answered(reply, 201, "a message").json.value,
        object({ commandId: uuid, revision: count, outcome: is("applied"), turnId: uuid }),
        ""
      )
    },
    running
  ),
  message(
    "derived",
    "The message that starts turn n is the UUIDv5 of <id>/message/<n>, its turn that of <id>/turn/<n>.",
    async (world) => {
      const { box, reply } = await send(world, "Conformance: [[say Derived.]]")
      const json = answered(reply, 201, "a message").json
      const log = await world.readLog(box)
      const n = log.filter(({ data, type }) => type === "turn.updated" && data.at("state").value === "pending").length
      same([json.at("commandId").value, json.at("turnId").value], [
        derived(`${box.id}/message/${n}`),
        turnId(box.id, n)
      ], "commandId and turnId")
    },
    { ...running, source: "docs/decisions/3" }
  ),
  message("turn-active", "A message during a turn is 409 turn_active.", async (world) => {
    const { box } = await world.hanging()
    refused(await world.post(box, "/messages", { prompt: "x" }), 409, "turn_active", "a message during a turn")
  }, running),
  message(
    "queued",
    "A message that queues is 201 as any other, and message.queued tells its id, its place and its text.",
    async (world) => {
      const { box, turn } = await world.waiting()
      const reply = await world.post(box, "/messages", { prompt: WAITED, whenBusy: "queue" })
      const { json } = answered(reply, 201, "a message that queues")
      fits(json.value, object({ commandId: uuid, revision: count, outcome: is("applied"), turnId: uuid }), "")
      const told = (await logSince(world, box, turn)).filter(({ type }) => type === "message.queued").map(({ data }) => data)
      same(
        told.map((data) => ["message_id", "position", "text", "steers"].map((name) => data.at(name).value)),
        [[json.at("turnId").value, 1, WAITED, false]],
        "message_id, position, text and steers of message.queued"
      )
    },
    waiting
  ),
  message(
    "queue-order",
    "Queued messages get their turns in order, each the announced turn, however the turn before ended.",
    async (world) => {
      const { box, turn, turns } = await wait(world, "queue", "queue")
      answered(await world.post(box, "/interrupt"), 200, "an interrupt")
      await box.turnEnd(turns.at(-1) ?? "")
      const started = (await logSince(world, box, turn)).filter(({ type }) => type === "turn.started")
      same(started.map(({ data, turnId }) => [turnId, data.at("text").value]), [
        [turn, "Conformance: [[hang]]"],
        ...turns.map((id) => [id, WAITED])
      ], "turn_id and text of turn.started")
    },
    waiting
  ),
  message("taken-back", "A message that waits can be taken back, again is duplicate, and it gets no turn.", async (world) => {
    const { box, turn, turns: [first = "", second = ""] } = await wait(world, "queue", "queue")
    for (const outcome of ["applied", "duplicate"]) {
      const reply = await world.http.ask(`${box.path}/messages/${first}`, { method: "DELETE" })
      same(answered(reply, 200, "taking a message back").json.at("outcome").value, outcome, "outcome")
    }
    answered(await world.post(box, "/interrupt"), 200, "an interrupt")
    await box.turnEnd(second)
    const log = await logSince(world, box, turn)
    same(log.filter(({ type }) => type === "turn.started").map(({ turnId }) => turnId), [turn, second], "turns that started")
    same(
      log.filter(({ type }) => type === "message.cancelled").map(({ data }) => data.at("message_id").value),
      [first],
      "message_id of message.cancelled"
    )
    refused(
      await world.http.ask(`${box.path}/messages/${second}`, { method: "DELETE" }),
      409,
      "message_not_waiting",
      "taking back a message that had its turn"
    )
  }, waiting),
  message("queue-full", "Ten messages wait; the next is 409 queue_full.", async (world) => {
    const { box, turns } = await wait(world, ...Array.from({ length: 10 }, () => "queue" as const))
    refused(
      await world.post(box, "/messages", { prompt: WAITED, whenBusy: "queue" }),
      409,
      "queue_full",
      "the eleventh message that queues"
    )
    for (const turn of turns) {
      answered(await world.http.ask(`${box.path}/messages/${turn}`, { method: "DELETE" }), 200, "taking a message back")
    }
  }, waiting),
  message(
    "steered",
    "A message that steers reaches the agent or is the next turn; an agent that takes none: 409 steering_unsupported.",
    async (world) => {
      const { box, turn } = await world.waiting()
      const reply = await world.post(box, "/messages", { prompt: WAITED, whenBusy: "steer" })
      if (reply.status === 409) {
        refused(reply, 409, "steering_unsupported", "a message that steers")
        return
      }
      const id = answered(reply, 201, "a message that steers").json.at("turnId").string
      answered(await world.post(box, "/interrupt"), 200, "an interrupt")
      await box.until(
        ({ data, turnId, type }) =>
          type === "message.steered" && data.at("message_id").value === id || type === "turn.started" && turnId === id,
        0,
        "the message"
      )
      const log = await logSince(world, box, turn)
      const reached = log.filter(({ data, turnId, type }) =>
        type === "message.steered" && data.at("message_id").value === id && turnId === turn || type === "turn.started" && turnId === id
      )
      holds(reached.length >= 1, "message.steered in the turn, or turn.started of its own", log.map(({ type }) => type))
      same(reached[0]?.data.at("text").value, WAITED, "text")
    },
    waiting
  ),
  message("when-busy", "whenBusy is reject, queue or steer, and an unknown message is 404.", async (world) => {
    const body = { prompt: "x", whenBusy: "later" }
    refused(await world.http.ask(`${UNKNOWN}/messages`, { body }), 400, "invalid_request", "whenBusy later")
    const { box } = await world.waiting()
    refused(await world.post(box, "/messages", { prompt: "x", whenBusy: "reject" }), 409, "turn_active", "whenBusy reject")
    refused(
      await world.http.ask(`${box.path}/messages/6ba7b810-9dad-51d1-80b4-00c04fd430c8`, { method: "DELETE" }),
      404,
      "not_found",
      "taking back an unknown message"
    )
  }, waiting),
  message("not-running", "A message to a sandbox that does not run is 409 sandbox_not_running.", async (world) => {
    refused(
      await world.post((await world.ended()).box, "/messages", { prompt: "x" }),
      409,
      "sandbox_not_running",
      "a message"
    )
  }, running),
  message("body", "The body is {prompt} of 1 to 60000 characters and nothing else.", async (world) => {
    const path = `${UNKNOWN}/messages`
    for (
      const body of [{}, { prompt: "" }, { prompt: "x".repeat(60_001) }, { prompt: 1 }, { prompt: "x", title: "y" }, {
        prompt: "a\0b"
      }]
    ) {
      refused(await world.http.ask(path, { body }), 400, "invalid_request", JSON.stringify(body).slice(0, 30))
    }
    refused(
      await world.http.ask(path, { body: { prompt: "x".repeat(60_000) } }),
      404,
      "not_found",
      "a valid body for a sandbox that does not exist"
    )
  }),
  message(
    "replayed",
    "An equal message under the same Idempotency-Key is 200 with the first one's ids and Idempotent-Replayed: true.",
    async (world) => {
      const headers = { "idempotency-key": `conformance ${unique()}` }
      const { box, reply } = await send(world, "Conformance: [[say Once.]]", headers)
      const first = answered(reply, 201, "a message").json
      await box.turnEnd(first.at("turnId").string)
      const again = await world.post(box, "/messages", { prompt: "Conformance: [[say Once.]]" }, { headers })
      const json = answered(again, 200, "an equal message").json
      same(
        ["commandId", "revision", "turnId"].map((name) => json.at(name).value),
        ["commandId", "revision", "turnId"].map((name) => first.at(name).value),
        "commandId, revision and turnId"
      )
      same(
        [json.at("outcome").value, again.header("idempotent-replayed")],
        ["duplicate", "true"],
        "outcome and Idempotent-Replayed"
      )
    },
    { ...running, source: "docs/decisions/4" }
  ),
  message("changed", "Another message under the same Idempotency-Key is 409 idempotency_conflict.", async (world) => {
    const headers = { "idempotency-key": `conformance ${unique()}` }
    const { box, reply } = await send(world, "Conformance: [[say One.]]", headers)
    await box.turnEnd(answered(reply, 201, "a message").json.at("turnId").string)
    refused(
      await world.post(box, "/messages", { prompt: "Conformance: [[say Two.]]" }, { headers }),
      409,
      "idempotency_conflict",
      "another message"
    )
  }, { ...running, source: "docs/decisions/4" }),
  message("key-scope", "An Idempotency-Key of a creation counts anew for a message.", async (world) => {
    const headers = { "idempotency-key": `conformance ${unique()}` }
    answered(await world.create({}, headers), 201, "a creation")
    const { reply } = await send(world, "Conformance: [[say Scope.]]", headers)
    answered(reply, 201, "a message under the key of a creation")
  }, { ...running, source: "docs/decisions/4" }),
  message(
    "list",
    "Messages are {id, turnId, role, text, files, createdAt}, oldest first, the prompt before the answers.",
    async (world) => {
      const box = await world.worked()
      const json = await list(world)
      fits(
        json.value,
        object({
          data: listOf(object({ id: filled, turnId: uuid, role: is("user", "assistant"), text, files: is([]), createdAt: timestamp })),
          nextCursor: nullOr(text)
        }),
        ""
      )
      const items = json.at("data").items
      same(items.slice(0, 2).map((item) => [item.at("role").value, item.at("turnId").value]), [[
        "user",
        turnId(box.id, 1)
      ], ["assistant", turnId(box.id, 1)]], "the first two")
      const at = items.map((item) => item.at("createdAt").string)
      same(at, [...at].sort(), "createdAt")
    },
    running
  ),
  message(
    "list-steered",
    "A message that an agent took is listed behind what the agent was saying, and before what it says to it.",
    async (world) => {
      const { box, steered } = await world.queued()
      if (steered === null) throw new Skip("the offline agent takes no message during a turn")
      const items = status(await world.get(box, "/messages"), "messages").at("data").items
      const said = items.map((item) => item.at("text").string.trim())
      const at = items.findIndex((item) => item.at("id").value === steered)
      same(
        [said[at - 1], said[at], said[at + 1]],
        [INTERRUPTED, "Conformance: [[say Steered.]]", "Steered."],
        "the messages around the steering message"
      )
      same(items[at]?.at("turnId").value, items[at - 1]?.at("turnId").value, "turnId of the message that steered")
    },
    waiting
  ),
  message("texts", "Prompts and answers are listed whole.", async (world) => {
    const items = (await list(world)).at("data").items
    holds(
      items[0]?.at("text").string.startsWith("Conformance: work.\n") === true,
      "the prompt",
      items[0]?.at("text").value
    )
    const said = items.filter((item) => item.at("role").value === "assistant").map((item) => item.at("text").string.trim())
    for (const text of ["I will change some files.", "Done."]) holds(said.includes(text), `the answer ${text}`, said)
  }, running),
  message("pages", "Pages give each message once, and nextCursor is null on the last.", async (world) => {
    const whole = (await list(world)).at("data").items.map((item) => item.at("id").string)
    const found: Array<string> = []
    for (let after = ""; found.length <= whole.length;) {
      const page = await list(world, `?limit=2${after}`)
      found.push(...page.at("data").items.map((item) => item.at("id").string))
      if (page.at("nextCursor").value === null) break
      same(page.at("data").items.length, 2, "messages of a page that has a next one")
      after = `&after=${page.at("nextCursor").string}`
    }
    same(found, whole, "messages of all pages")
  }, running),
  message("query", "limit is 1 to 100, and after an integer.", async (world) => {
    for (const limit of [0, 101]) {
      refused(await world.http.ask(`${UNKNOWN}/messages?limit=${limit}`), 400, "invalid_request", `limit=${limit}`)
    }
    refused(await world.http.ask(`${UNKNOWN}/messages?after=x`), 400, "invalid_cursor", "after=x")
  })
]
