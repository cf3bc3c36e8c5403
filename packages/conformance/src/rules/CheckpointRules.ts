/** The checkpoints of a sandbox, which outlive its machine, restoring and forking them. A server without checkpoints has an empty list. */
import { answered, refused } from "../client/Client.ts"
import { count, filled, fits, holds, listOf, nullOr, object, same, text, timestamp, uuid } from "../client/Expect.ts"
import { type Box, KEPT, LATER, UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("checkpoints", "docs/decisions/16")
const running = { needs: ["repo"] } as const

const list = async (world: World, query = "") =>
  answered(await world.get(await world.worked(), `/checkpoints${query}`), 200, `checkpoints${query}`).json

const PROMPT = "Conformance: fork."

/** Invalid numbers of checkpoints. */
const NO_NUMBERS: ReadonlyArray<unknown> = [-1, 1.5, 2 ** 53, "1", null, true, [1], {}]

/** The present contents of `KEPT` and `LATER`; `null`: no such file. */
const files = (world: World, box: Box) =>
  Promise.all([KEPT, LATER].map(async (path) => {
    const { json } = answered(await world.get(box, `/files/content?path=${path}`), 200, "content")
    const working = json.at("working")
    return working.value === null ? null : working.at("content").value
  }))

/** The rules of this file. */
export const rules = [
  rule("list", "Checkpoints are {checkpoint, turnId, createdAt, bytes, repos: [{repo, sha}]}, oldest first.", async (world) => {
    const json = await list(world)
    const tree = object({ repo: filled, sha: filled })
    fits(
      json.value,
      object({
        data: listOf(object({ checkpoint: count, turnId: nullOr(uuid), createdAt: timestamp, bytes: count, repos: listOf(tree) })),
        nextCursor: nullOr(text)
      }),
      ""
    )
    const numbers = json.at("data").items.map((item) => Number(item.at("checkpoint").value))
    same(numbers, [...new Set(numbers)].sort((a, b) => a - b), "their numbers")
    holds(numbers.every((number) => number > 0), "numbers from 1", numbers)
  }, running),
  rule("pages", "Pages give each checkpoint once, and nextCursor is null on the last.", async (world) => {
    const whole = (await list(world)).at("data").items.map((item) => item.at("checkpoint").value)
    const found: Array<unknown> = []
    for (let after = ""; found.length <= whole.length;) {
      const page = await list(world, `?limit=1${after}`)
      found.push(...page.at("data").items.map((item) => item.at("checkpoint").value))
      if (page.at("nextCursor").value === null) break
      same(page.at("data").items.length, 1, "checkpoints of a page that has a next one")
      after = `&after=${page.at("nextCursor").string}`
    }
    same(found, whole, "checkpoints of all pages")
  }, running),
  rule("list-over", "Of a sandbox that is over the last checkpoint is listed still.", async (world) => {
    const { checkpoint, origin } = await world.forkedLate()
    const { json } = answered(await world.get(origin, "/checkpoints"), 200, "checkpoints")
    same(json.at("data").items.at(-1)?.at("checkpoint").value, checkpoint, "the last listed one")
  }, running),
  rule("query", "limit is 1 to 100, and after an integer.", async (world) => {
    for (const limit of [0, 101]) {
      refused(await world.http.ask(`${UNKNOWN}/checkpoints?limit=${limit}`), 400, "invalid_request", `limit=${limit}`)
    }
    refused(await world.http.ask(`${UNKNOWN}/checkpoints?after=x`), 400, "invalid_cursor", "after=x")
  }),
  rule("restore-body", "restore takes {checkpoint}, 0 to 2^53-1, and nothing else.", async (world) => {
    const restore = (body: unknown) => world.http.ask(`${UNKNOWN}/restore`, { body })
    for (const body of [{}, { checkpoint: 1, force: true }, ...NO_NUMBERS.map((checkpoint) => ({ checkpoint }))]) {
      refused(await restore(body), 400, "invalid_request", JSON.stringify(body))
    }
    refused(await world.http.ask(`${UNKNOWN}/restore`, { method: "POST" }), 400, "invalid_request", "no body")
    for (const checkpoint of [0, 1, Number.MAX_SAFE_INTEGER]) {
      refused(await restore({ checkpoint }), 404, "not_found", `checkpoint ${checkpoint} of a sandbox that does not exist`)
    }
  }),
  rule("restore-unknown", "restore to a checkpoint that there is not is 404 not_found.", async (world) => {
    const box = await world.resting()
    for (const checkpoint of [0, Number.MAX_SAFE_INTEGER]) {
      refused(await world.post(box, "/restore", { checkpoint }), 404, "not_found", `restore to checkpoint ${checkpoint}`)
    }
  }, running),
  rule("restore-active", "restore during a turn is rejected turn_active.", async (world) => {
    const { box, turn } = await world.hanging()
    const { json } = answered(await world.post(box, "/restore", { checkpoint: 1 }), 200, "restore")
    await world.post(box, "/interrupt")
    await box.turnEnd(turn)
    same([json.at("outcome").value, json.at("rejection").value], ["rejected", "turn_active"], "outcome and rejection")
  }, running),
  rule("restore-over", "restore of a sandbox that is over is rejected sandbox_terminal.", async (world) => {
    for (const box of [(await world.ended()).box, await world.failed(), (await world.forkedLate()).origin]) {
      const { json } = answered(await world.post(box, "/restore", { checkpoint: 1 }), 200, "restore")
      same([json.at("outcome").value, json.at("rejection").value], ["rejected", "sandbox_terminal"], "outcome and rejection")
    }
  }, running),
  rule("restore-files", "After a restore the files are those of the checkpoint.", async (world) => {
    same(await files(world, (await world.restored()).box), ["first\n", null], "files that a later turn changed and added")
  }, running),
  rule("restore-log", "A restore takes nothing out of the log: it adds sandbox.restoring and sandbox.restored.", async (world) => {
    const { before, box, checkpoint } = await world.restored()
    const log = await world.readLog(box)
    same(log.slice(0, before.length).map(({ json }) => json.value), before.map(({ json }) => json.value), "what the log had before")
    const added = log.slice(before.length).filter(({ type }) => type !== "sandbox.checkpoint")
    same(added.map(({ type }) => type), ["sandbox.restoring", "sandbox.restored"], "what was added")
    for (const { data, type } of added) same(data.at("checkpoint").value, checkpoint, `checkpoint of ${type}`)
    same(added[1]?.data.at("cause").value, "command", "cause")
  }, running),
  rule("fork-files", "A fork has the files of its checkpoint and what it does itself; its origin stays as it was.", async (world) => {
    const { box, origin } = await world.forked()
    same(await files(world, box), ["first\n", "fork\n"], "files of the fork")
    same(await files(world, origin), ["second\n", null], "files of its origin")
  }, running),
  rule("fork-log", "A fork's log begins with the status queued and sandbox.forked, and has nothing of its origin's.", async (world) => {
    const { box, checkpoint, origin } = await world.forked()
    const log = await world.readLog(box)
    same(log.slice(0, 2).map(({ type }) => type), ["sandbox.status", "sandbox.forked"], "its first events")
    same(log[1]?.data.value, { sandbox_id: origin.id, checkpoint }, "where it comes from")
    same(log.filter(({ type }) => type === "turn.started").length, 1, "turns that its log tells of")
  }, running),
  rule("fork-body", "fork takes a prompt and what a creation may say beside repos, checkpoint too, and nothing else.", async (world) => {
    const fork = (body: unknown) => world.http.ask(`${UNKNOWN}/fork`, { body })
    const bad = [
      {},
      { prompt: "" },
      { prompt: "x".repeat(60_001) },
      { prompt: PROMPT, repos: [{ fullName: "a/b" }] },
      { prompt: PROMPT, title: "" },
      { prompt: PROMPT, model: "" },
      { prompt: PROMPT, reasoningEffort: "extreme" },
      { prompt: PROMPT, toolApprovalMode: "never" },
      { prompt: PROMPT, metadata: { a: 1 } },
      ...NO_NUMBERS.map((checkpoint) => ({ prompt: PROMPT, checkpoint }))
    ]
    for (const body of bad) refused(await fork(body), 400, "invalid_request", JSON.stringify(body).slice(0, 80))
    refused(await world.http.ask(`${UNKNOWN}/fork`, { method: "POST" }), 400, "invalid_request", "no body")
    const full = { prompt: PROMPT, title: "T", reasoningEffort: "low", toolApprovalMode: "auto", metadata: { a: "1" }, checkpoint: 1 }
    for (const body of [{ prompt: PROMPT }, full]) refused(await fork(body), 404, "not_found", "a fork of a sandbox that does not exist")
  }),
  rule("fork-key", "fork takes an Idempotency-Key of 1 to 255 printable characters.", async (world) => {
    const fork = (key: string) => world.http.ask(`${UNKNOWN}/fork`, { body: { prompt: PROMPT }, headers: { "idempotency-key": key } })
    refused(await fork("k".repeat(256)), 400, "invalid_idempotency_key", "a key of 256 characters")
    refused(await fork("k".repeat(255)), 404, "not_found", "one of 255")
  }),
  rule("fork-none", "fork of a sandbox that has no checkpoint is 409 conflict.", async (world) => {
    refused(await world.post(await world.failed(), "/fork", { prompt: PROMPT }), 409, "conflict", "a fork of a sandbox that never ran")
  }, running),
  rule("diff", "diff is text/x-diff of what the tree holds beyond where it started: protected files named, not shown.", async (world) => {
    const reply = answered(await world.get(await world.worked(), `/files/diff?repo=${world.repo}`), 200, "diff")
    same(reply.header("content-type"), "text/x-diff; charset=utf-8", "Content-Type")
    for (const wanted of [/^\+\+\+ b\/conformance\/B\.txt$/mu, /conformance\/\.env\b/u]) {
      holds(wanted.test(reply.text), `a patch with ${wanted.source}`, reply.text.slice(0, 500))
    }
    holds(!reply.text.includes("SECRET=1"), "a patch without protected content", reply.text.slice(0, 500))
    const path = answered(await world.get(await world.worked(), `/files/diff?repo=${world.repo}&path=conformance/B.txt`), 200, "of a file")
    same(path.text.match(/^diff --git /gmu)?.length, 1, "files in a patch of one file")
  }, running),
  rule("diff-versions", "diff takes base, working and numbers of checkpoints that there are.", async (world) => {
    const box = await world.worked()
    const diff = (query: string) => world.get(box, `/files/diff?repo=${world.repo}&${query}`)
    for (const query of ["from=", "from=head", "to=-1", "from=1.5", "to=9007199254740992", "path=", "from=1&from=2"]) {
      refused(await diff(query), 400, "invalid_request", `diff?${query}`)
    }
    for (const query of ["from=0", "to=9007199254740991"]) refused(await diff(query), 404, "not_found", `diff?${query}`)
  }, running),
  rule("diff-running", "diff needs a sandbox that runs, or has a checkpoint and was not terminated.", async (world) => {
    for (const box of [await world.failed(), (await world.ended()).box]) {
      refused(await world.get(box, `/files/diff`), 409, "sandbox_not_running", "diff of a sandbox without trees")
    }
  }, running),
  rule("diff-over", "Of a terminated sandbox no diff is shown, not even between its checkpoints.", async (world) => {
    const { checkpoint, origin } = await world.forkedLate()
    for (const query of ["", `?from=${checkpoint - 1}&to=${checkpoint}`, `?from=${checkpoint}`]) {
      refused(await world.get(origin, `/files/diff${query}`), 409, "sandbox_not_running", `diff${query} of a terminated sandbox`)
    }
  }, running),
  {
    ...rule(
      "diff-last",
      "diff of a sandbox that succeeded or failed shows its last checkpoint as the working tree, and what differs between checkpoints.",
      async () => {}
    ),
    untestable: "no request makes a sandbox that worked succeed or fail"
  },
  rule("fork-over", "A sandbox that is over can be forked, from its last checkpoint; it stays as it was.", async (world) => {
    const { box, checkpoint, origin } = await world.forkedLate()
    answered(await world.post(origin, "/fork", { prompt: PROMPT }), 201, "a fork of a sandbox that is over")
    same((await world.readLog(box))[1]?.data.value, { sandbox_id: origin.id, checkpoint }, "where the fork comes from")
    same(await files(world, box), ["second\n", "fork\n"], "files of the fork")
    same(answered(await world.get(origin, ""), 200, "its origin").json.at("status").value, "terminated", "status of its origin")
  }, running),
  rule("fork-unknown", "fork of a checkpoint that there is not is 404 not_found.", async (world) => {
    const box = await world.worked()
    for (const checkpoint of [0, Number.MAX_SAFE_INTEGER]) {
      refused(await world.post(box, "/fork", { prompt: PROMPT, checkpoint }), 404, "not_found", `a fork of checkpoint ${checkpoint}`)
    }
  }, running)
]
