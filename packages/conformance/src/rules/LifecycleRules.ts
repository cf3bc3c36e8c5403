import { answered } from "../client/Client.ts"
import { count, fits, holds, is, nullOr, object, same, text, timestamp } from "../client/Expect.ts"
import { turnId } from "../world/Identity.ts"
import type { Box, Event, World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("lifecycle", "docs/decisions/2.1")
const running = { needs: ["repo"] } as const
const turns = { ...running, source: "docs/decisions/2.2" } as const

const causes = (log: ReadonlyArray<Event>) =>
  log.flatMap(({ data, type }) =>
    type === "sandbox.status"
      ? [[data.at("previous").value, data.at("status").value, data.at("reason").value, data.at("initiator").value]]
      : []
  )

const statesOf = (log: ReadonlyArray<Event>, turn: string) =>
  log.filter(({ turnId, type }) => turnId === turn && type.startsWith("turn.")).map(({ data, type }) =>
    type === "turn.started" ? "turn.started" : `${type} ${data.at("state").string}`
  )

const sandbox = async (world: World, box: Box) => answered(await world.get(box), 200, "the sandbox").json

/** The rules of this file. */
export const rules = [
  rule("boot", "A sandbox goes from queued through creating to running, and the log says why.", async (world) => {
    same(causes(await world.log()), [[null, "queued", null, "user"], ["queued", "creating", null, "system"], [
      "creating",
      "running",
      null,
      "system"
    ]], "changes of status")
  }, running),
  rule(
    "setup",
    "The setup of a sandbox is {state, startedAt, ms, cache, exitCode, output}; of none there is nothing to tell.",
    async (world) => {
      const { json } = answered(await world.get(await world.worked(), "/setup"), 200, "the setup")
      fits(
        json.value,
        object({
          state: is("none", "running", "succeeded", "failed"),
          startedAt: nullOr(timestamp),
          ms: nullOr(count),
          cache: is("hit", "miss", "none"),
          exitCode: nullOr(count),
          output: text
        }),
        ""
      )
      const isNone = json.at("state").value === "none"
      holds(isNone === (json.at("startedAt").value === null), "startedAt exactly where there is a setup", json.value)
    },
    { ...running, source: "docs/decisions/17" }
  ),
  rule("first-turn", "There is no turn before running; then the first is pending.", async (world) => {
    const log = await world.log()
    const first = log.findIndex(({ turnId, type }) => turnId !== undefined || type.startsWith("turn."))
    const ready = log.findIndex(({ data, type }) => type === "sandbox.status" && data.at("status").value === "running")
    holds(ready >= 0 && first > ready, "the first event of a turn after status running", { ready, first })
    same([log[first]?.type, log[first]?.data.at("state").value, log[first]?.data.at("previous").value], [
      "turn.updated",
      "pending",
      null
    ], "the first event of a turn")
  }, turns),
  rule("turn", "A turn is pending, then started, then completed.", async (world) => {
    const { id } = await world.worked()
    same(statesOf(await world.log(), turnId(id, 1)), [
      "turn.updated pending",
      "turn.started",
      "turn.completed succeeded"
    ], "what became of the turn")
  }, turns),
  rule("running-persists", "A turn that ended leaves its sandbox running, with no active turn.", async (world) => {
    const json = await sandbox(world, await world.worked())
    same([json.at("status").value, json.at("turn").value], ["running", { active: false }], "status and turn")
  }, running),
  rule("active-turn", "turn.active is true during a turn.", async (world) => {
    const { box } = await world.hanging()
    same((await sandbox(world, box)).at("turn").value, { active: true }, "turn")
  }, turns),
  rule("awaiting-approval", "A turn that waits for an approval is active, and says so.", async (world) => {
    const { box, turn } = await world.pending()
    same((await sandbox(world, box)).at("turn").value, { active: true }, "turn")
    await box.until(({ turnId }) => turnId === turn)
    const states = statesOf(await world.readLog(box), turn)
    same(states, ["turn.updated pending", "turn.started", "turn.updated awaiting_approval"], "what became of the turn")
  }, turns),
  rule("started-at", "startedAt is when it first ran; completedAt is null until it is over.", async (world) => {
    const json = await sandbox(world, await world.worked())
    fits(json.at("startedAt").value, timestamp, "startedAt")
    holds(
      json.at("startedAt").string >= json.at("createdAt").string,
      "startedAt not before createdAt",
      json.at("startedAt").value
    )
    same(json.at("completedAt").value, null, "completedAt")
  }, running),
  rule("completed-at", "completedAt is set once, when the sandbox is over.", async (world) => {
    const { box } = await world.ended()
    const json = await sandbox(world, box)
    fits(json.at("completedAt").value, timestamp, "completedAt")
    holds(
      json.at("completedAt").string >= json.at("startedAt").string,
      "completedAt not before startedAt",
      json.at("completedAt").value
    )
    await world.post(box, "/terminate")
    same(
      (await sandbox(world, box)).at("completedAt").value,
      json.at("completedAt").value,
      "completedAt after another terminate"
    )
  }, running),
  rule(
    "terminated",
    "Terminate goes through terminating to terminated, with the reason and initiator that began it.",
    async (world) => {
      same(causes(await world.endedLog()).slice(3), [["running", "terminating", "terminated", "user"], [
        "terminating",
        "terminated",
        "terminated",
        "user"
      ]], "changes of status")
    },
    running
  ),
  rule("terminated-final", "Nothing happens to a sandbox that is terminated.", async (world) => {
    const last = (await world.endedLog()).at(-1)
    same([last?.type, last?.data.at("status").value], ["sandbox.status", "terminated"], "the last event")
  }, running),
  rule("terminate-turn", "Terminate denies pending approvals and interrupts the turn.", async (world) => {
    const log = await world.endedLog()
    const resolved = log.find(({ type }) => type === "approval.resolved")
    same([resolved?.data.at("outcome").value, resolved?.data.at("by").value], ["denied", "terminate"], "the approval")
    same(
      log.find(({ type }) => type === "turn.completed")?.data.at("state").value,
      "interrupted",
      "the end of the turn"
    )
  }, running),
  rule("failed-turn", "A turn that failed leaves its sandbox running, without an error.", async (world) => {
    const box = await world.busy()
    const turn = await box.say("Conformance: [[error It is meant to fail.]]")
    await box.turnEnd(turn)
    same(statesOf(await world.readLog(box), turn).at(-1), "turn.completed failed", "the end of the turn")
    const json = await sandbox(world, box)
    same([json.at("status").value, json.at("error").value], ["running", null], "status and error")
  }, turns),
  rule(
    "failed",
    "A sandbox that cannot boot is failed: an error for people, completed, never started.",
    async (world) => {
      const json = await sandbox(world, await world.failed())
      same([json.at("status").value, json.at("startedAt").value, json.at("turn").value], ["failed", null, {
        active: false
      }], "status, startedAt and turn")
      fits(json.at("error").value, text, "error")
      fits(json.at("completedAt").value, timestamp, "completedAt")
    }
  ),
  rule("no-error", "error is null unless the sandbox failed.", async (world) => {
    for (const box of [await world.worked(), (await world.ended()).box]) {
      same((await sandbox(world, box)).at("error").value, null, "error")
    }
  }, running)
]
