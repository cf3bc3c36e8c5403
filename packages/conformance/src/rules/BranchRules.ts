/** Continuing a branch or a pull request, and syncs with the source host. */
import { answered, refused } from "../client/Client.ts"
import { fits, holds, listOf, matching, object, same, text } from "../client/Expect.ts"
import { BEGUN, UNKNOWN } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("branches", "docs/decisions/24")
const running = { needs: ["repo"] } as const

const COMMIT = "a".repeat(40)
/** A branch that no sandbox has, but that a grant may push to. */
const NO_SANDBOX = "slipway/c_zzzzzzzzzzzz"

const branches = listOf(object({ repo: text, branch: text, sha: matching(/^[0-9a-f]{40}$/u, "a commit") }, { open: true }))

/** The rules of this file. */
export const rules = [
  rule("body", "continue takes exactly one of pullRequest and branch, of one of the repos, which has no ref.", async (world) => {
    const { repo } = world
    const bad: ReadonlyArray<object> = [
      { continue: {} },
      { continue: { repo } },
      { continue: { pullRequest: 1, branch: NO_SANDBOX } },
      { continue: { pullRequest: 0 } },
      { continue: { pullRequest: "1" } },
      { continue: { pullRequest: 1.5 } },
      { continue: { branch: "" } },
      { continue: { branch: "a..b" } },
      { continue: { branch: COMMIT } },
      { continue: { pullRequest: 1, force: true } },
      { continue: { pullRequest: 1, repo: "conformance/another" } },
      { continue: { pullRequest: 1 }, repos: [{ fullName: repo }, { fullName: "conformance/another" }] },
      { continue: { pullRequest: 1 }, repos: [{ fullName: repo, ref: "main" }] }
    ]
    for (const more of bad) refused(await world.probe(more), 400, "invalid_request", JSON.stringify(more).slice(0, 90))
    for (const asked of [{ pullRequest: 1 }, { branch: NO_SANDBOX }, { pullRequest: 1, repo: repo.toUpperCase() }]) {
      refused(await world.probe({ continue: asked }), 409, "idempotency_conflict", `a used key with continue ${JSON.stringify(asked)}`)
    }
  }),
  rule("not-writable", "continue of a pull request or branch that there is not, or that may not be pushed to, is 409.", async (world) => {
    const asked = [{ pullRequest: 2 ** 31 - 1 }, { pullRequest: Number.MAX_SAFE_INTEGER }, { branch: NO_SANDBOX }, {
      branch: "conformance"
    }]
    for (const one of asked) {
      refused(await world.create({ continue: one }), 409, "pull_request_not_writable", `continue ${JSON.stringify(one)}`)
    }
  }, running),
  rule("files", "A sandbox that continues a pull request starts with the files of its branch.", async (world) => {
    const { box, branch } = await world.continued()
    same(answered(await world.get(box, ""), 200, "the sandbox").json.at("repos").value, [{ fullName: world.repo, ref: branch }], "repos")
    const { json } = answered(await world.get(box, `/files/content?path=${BEGUN}`), 200, "content")
    same(json.at("working").at("content").value, "begun\n", "a file of the pull request")
  }, running),
  rule("log", "Its log begins with the status queued, sandbox.continued and pull_request.updated.", async (world) => {
    const { box, branch, number } = await world.continued()
    const [queued, continued, pull] = await world.readLog(box)
    same([queued?.type, continued?.type, pull?.type], ["sandbox.status", "sandbox.continued", "pull_request.updated"], "the first events")
    same(continued?.data.value, { repo: world.repo, branch, pull_request: number }, "what it continues")
    same([pull?.data.at("number").value, pull?.data.at("head_ref").value], [number, branch], "the pull request and its branch")
  }, running),
  rule("publish", "It publishes to that branch and pull request.", async (world) => {
    const { box, branch, number } = await world.continued()
    const found = answered(await world.post(box, "/pull-request"), 200, "publishing").json.at("pullRequest")
    same([found.at("number").value, found.at("headRef").value, found.at("state").value], [number, branch, "open"], "the pull request")
    same(found.at("changedFiles").value, 2, "files that the pull request changes")
  }, running),
  rule(
    "sync",
    "sync between turns is applied; sandbox.syncing and sandbox.synced tell of it, with branches and commits.",
    async (world) => {
      const { box, branch } = await world.continued()
      await box.idle()
      const before = (await world.readLog(box)).length
      const { json } = answered(await world.post(box, "/sync"), 200, "sync")
      same(json.at("outcome").value, "applied", "outcome of a sync")
      const last = box.events.at(-1)?.id ?? 0
      await box.until(({ type }) => type === "sandbox.synced", last, "the end of the sync")
      const added = (await world.readLog(box)).slice(before)
      const told = added.filter(({ type }) => type.startsWith("sandbox.sync"))
      same(told.map(({ type }) => type), ["sandbox.syncing", "sandbox.synced"], "events of the sync")
      same(told[0]?.data.value, { repos: [world.repo] }, "what is asked for")
      fits(told[1]?.data.at("branches").value, branches, "branches")
      const names = (told[1]?.data.at("branches").items ?? []).map((one) => one.at("branch").value)
      holds(names.length === 2 && names.includes(branch), "the base and the branch of the pull request", names)
    },
    running
  ),
  rule("sync-active", "sync during a turn is 409 turn_active.", async (world) => {
    const { box, turn } = await world.hanging()
    const reply = await world.post(box, "/sync")
    await world.post(box, "/interrupt")
    await box.turnEnd(turn)
    refused(reply, 409, "turn_active", "a sync during a turn")
  }, running),
  rule("sync-over", "sync of a sandbox that is over is rejected sandbox_terminal.", async (world) => {
    for (const box of [(await world.ended()).box, await world.failed()]) {
      const { json } = answered(await world.post(box, "/sync"), 200, "sync")
      same([json.at("outcome").value, json.at("rejection").value], ["rejected", "sandbox_terminal"], "outcome and rejection")
    }
  }, running),
  rule("sync-unknown", "sync of a sandbox that does not exist is 404 not_found.", async (world) => {
    refused(await world.http.ask(`${UNKNOWN}/sync`, { method: "POST" }), 404, "not_found", "a sync of a sandbox that does not exist")
  })
]
