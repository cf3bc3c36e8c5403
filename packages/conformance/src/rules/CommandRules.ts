import { answered, refused, type Reply } from "../client/Client.ts"
import { count, filled, fits, holds, is, object, same, uuid } from "../client/Expect.ts"
import { derived } from "../world/Identity.ts"
import { type Box, type Event, SANDBOXES, UNKNOWN, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("commands", "docs/decisions/3")
const running = { needs: ["repo"] } as const

const result = (reply: Reply, to: string) => {
  const { json } = answered(reply, 200, to)
  return {
    json,
    commandId: json.at("commandId").value,
    revision: json.at("revision").value,
    outcome: json.at("outcome").value,
    rejection: json.at("rejection").value
  }
}
const outcome = (reply: Reply, wanted: string, to: string) => {
  const found = result(reply, to)
  same(
    found.rejection === undefined ? found.outcome : `${String(found.outcome)} ${String(found.rejection)}`,
    wanted,
    `outcome of ${to}`
  )
  return found
}

const COUNTED = /^(?:sandbox\.(?:status|restor)|turn\.|approval\.|question\.|pull_request\.)/u
/** Revision of a sandbox, counted from its log. */
const revisionOf = (log: ReadonlyArray<Event>) => log.filter(({ type }) => COUNTED.test(type)).length

const decide = (world: World, box: Box, approval: string, decision: unknown) =>
  world.post(box, `/approvals/${encodeURIComponent(approval)}`, { decision })

/** A turn that was interrupted, with the reply to its interrupt. */
const interrupted = async (world: World) => {
  const { box, turn } = await world.hanging()
  const reply = await world.post(box, "/interrupt")
  return { box, turn, reply }
}

/** The rules of this file. */
export const rules = [
  rule(
    "shape",
    "A command is answered with commandId, revision and outcome, and with rejection iff it is rejected.",
    async (world) => {
      const { box } = await world.ended()
      const done = object({ commandId: uuid, revision: count, outcome: is("applied", "duplicate") })
      const refusal = object({
        commandId: uuid,
        revision: count,
        outcome: is("rejected"),
        rejection: world.options.contract ? filled : is("sandbox_terminal")
      })
      fits(result(await world.post(box, "/terminate"), "terminate").json.value, done, "")
      fits(result(await world.post(box, "/interrupt"), "interrupt").json.value, refusal, "")
    },
    { ...running, source: "docs/interface.md 2.4" }
  ),
  rule("terminate", "terminate is applied, with the id derived from <id>/terminate.", async (world) => {
    const id = answered(await world.create(), 201, "a creation").json.at("id").string
    const found = outcome(
      await world.http.ask(`${SANDBOXES}/${id}/terminate`, { method: "POST" }),
      "applied",
      "terminate"
    )
    same(found.commandId, derived(`${id}/terminate`), "commandId")
  }),
  rule(
    "terminate-again",
    "A second terminate is a duplicate with the first one's id and revision, whatever the status.",
    async (world) => {
      const { box, commandId, revision } = await world.ended()
      const again = outcome(await world.post(box, "/terminate"), "duplicate", "a second terminate")
      same([again.commandId, again.revision], [commandId, revision], "commandId and revision")
    },
    running
  ),
  rule("terminate-concurrent", "Of terminates at the same time exactly one is applied.", async (world) => {
    const id = answered(await world.create(), 201, "a creation").json.at("id").string
    const replies = await Promise.all(
      Array.from({ length: 5 }, () => world.http.ask(`${SANDBOXES}/${id}/terminate`, { method: "POST" }))
    )
    const found = replies.map((reply) => result(reply, "terminate"))
    same(
      found.map(({ outcome }) => outcome).sort(),
      ["applied", "duplicate", "duplicate", "duplicate", "duplicate"],
      "outcomes"
    )
    same(new Set(found.map(({ revision }) => revision)).size, 1, "number of revisions told")
  }),
  rule("terminate-failed", "A failed sandbox can be terminated.", async (world) => {
    const box = await world.failed("to terminate")
    const { outcome: first } = result(await world.post(box, "/terminate"), "terminate")
    holds(first === "applied" || first === "duplicate", "applied", first)
    await box.status("terminated")
    same(answered(await world.get(box), 200, "the sandbox").json.at("status").value, "terminated", "status")
  }),
  rule(
    "interrupt",
    "interrupt ends the active turn, with the id derived from <id>/interrupt/<turnId>.",
    async (world) => {
      const { box, reply, turn } = await interrupted(world)
      same(outcome(reply, "applied", "interrupt").commandId, derived(`${box.id}/interrupt/${turn}`), "commandId")
      await box.turnEnd(turn)
      const end = (await world.readLog(box)).find(({ turnId, type }) => turnId === turn && type === "turn.completed")
      same(end?.data.at("state").value, "interrupted", "state of the turn")
    },
    running
  ),
  rule(
    "interrupt-again",
    "A second interrupt of the turn is a duplicate with the first one's id and revision, even after its end.",
    async (world) => {
      const { box, reply, turn } = await interrupted(world)
      const first = result(reply, "interrupt")
      await box.turnEnd(turn)
      const again = outcome(await world.post(box, "/interrupt"), "duplicate", "a second interrupt")
      same([again.commandId, again.revision], [first.commandId, first.revision], "commandId and revision")
    },
    running
  ),
  rule(
    "interrupt-nothing",
    "interrupt without an active turn is rejected no_active_turn, under an id of its revision.",
    async (world) => {
      const box = await world.worked()
      const found = outcome(await world.post(box, "/interrupt"), "rejected no_active_turn", "interrupt of nothing")
      same(found.commandId, derived(`${box.id}/interrupt/none/${String(found.revision)}`), "commandId")
      same(
        outcome(await world.post(box, "/interrupt"), "rejected no_active_turn", "another").revision,
        found.revision,
        "revision of another"
      )
    },
    running
  ),
  rule("interrupt-over", "interrupt of a sandbox that is over is rejected sandbox_terminal.", async (world) => {
    outcome(await world.post((await world.ended()).box, "/interrupt"), "rejected sandbox_terminal", "interrupt")
    outcome(
      await world.post(await world.failed(), "/interrupt"),
      "rejected sandbox_terminal",
      "interrupt of a failed one"
    )
  }, running),
  rule(
    "revision",
    "revision is 1 at creation and grows by 1 per change of sandbox, turn, approval or pull request.",
    async (world) => {
      const { box, turn } = await interrupted(world)
      await box.turnEnd(turn)
      const sent = result201(await world.post(box, "/messages", { prompt: "Conformance: [[say Counted.]]" }))
      const turnId = sent.at("turnId").string
      await box.turnEnd(turnId)
      const log = await world.readLog(box)
      const at = log.findIndex((event) => event.turnId === turnId)
      same(sent.at("revision").value, revisionOf(log.slice(0, at + 1)), "revision of a message")
      same(
        result(await world.post(box, "/interrupt"), "interrupt").revision,
        revisionOf(log),
        "revision after its turn"
      )
    },
    running
  ),
  rule(
    "approve",
    "approve is applied, with the id derived from <id>/approval/<approvalId>/approve, and the tool runs.",
    async (world) => {
      if (world.options.contract) {
        const box = await world.asking()
        const asked = await box.until(({ type }) => type === "approval.requested", 0, "a request for approval")
        const { outcome } = result(await decide(world, box, asked.data.at("approval_id").string, "approve"), "approve")
        return holds(outcome === "applied" || outcome === "duplicate", "approve to be applied", outcome)
      }
      const { approval, box, turn } = await world.pending()
      const found = outcome(await decide(world, box, approval, "approve"), "applied", "approve")
      same(found.commandId, derived(`${box.id}/approval/${approval}/approve`), "commandId")
      await box.turnEnd(turn)
      const log = (await world.readLog(box)).filter(({ turnId }) => turnId === turn)
      const resolved = log.find(({ type }) => type === "approval.resolved")?.data
      same([resolved?.at("outcome").value, resolved?.at("by").value], ["approved", "user"], "the approval")
      const tool = log.findLast(({ data, type }) => type === "tool.updated" && data.at("call_id").value === approval)
      same(tool?.data.at("status").value, "completed", "the tool")
    },
    { ...running, source: "docs/interface.md 4.6" }
  ),
  rule("deny", "deny is applied, and the tool does not run.", async (world) => {
    const { approval, box, turn } = await world.pending()
    same(
      outcome(await decide(world, box, approval, "deny"), "applied", "deny").commandId,
      derived(`${box.id}/approval/${approval}/deny`),
      "commandId"
    )
    await box.turnEnd(turn)
    const log = (await world.readLog(box)).filter(({ turnId }) => turnId === turn)
    same(log.find(({ type }) => type === "approval.resolved")?.data.at("outcome").value, "denied", "the approval")
    const tool = log.findLast(({ data, type }) => type === "tool.updated" && data.at("call_id").value === approval)
    same(tool?.data.at("status").value, "error", "the tool")
  }, running),
  rule(
    "decide-again",
    "The same decision again is a duplicate with the first one's id and revision.",
    async (world) => {
      const { approval, box } = await world.pending()
      const first = result(await decide(world, box, approval, "approve"), "approve")
      const again = outcome(await decide(world, box, approval, "approve"), "duplicate", "a second approve")
      same([again.commandId, again.revision], [first.commandId, first.revision], "commandId and revision")
    },
    running
  ),
  rule(
    "first-decision",
    "The first decision wins: the opposite one is rejected approval_already_resolved.",
    async (world) => {
      const { approval, box } = await world.pending()
      outcome(await decide(world, box, approval, "deny"), "applied", "deny")
      outcome(await decide(world, box, approval, "approve"), "rejected approval_already_resolved", "approve after deny")
    },
    running
  ),
  rule("decide-concurrent", "Of decisions at the same time exactly one is applied.", async (world) => {
    const { approval, box } = await world.pending()
    const replies = await Promise.all(
      ["approve", "deny", "approve", "deny"].map((decision) => decide(world, box, approval, decision))
    )
    same(replies.map((reply) => String(result(reply, "a decision").outcome)).sort(), [
      "applied",
      "duplicate",
      "rejected",
      "rejected"
    ], "outcomes")
  }, running),
  rule(
    "interrupt-denies",
    "interrupt denies pending approvals; deciding them afterwards is rejected approval_already_resolved.",
    async (world) => {
      const { approval, box, turn } = await world.pending()
      outcome(await world.post(box, "/interrupt"), "applied", "interrupt")
      outcome(
        await decide(world, box, approval, "approve"),
        "rejected approval_already_resolved",
        "approve after interrupt"
      )
      await box.turnEnd(turn)
      const resolved = (await world.readLog(box)).find(({ turnId, type }) => turnId === turn && type === "approval.resolved")?.data
      same([resolved?.at("outcome").value, resolved?.at("by").value], ["denied", "interrupt"], "the approval")
    },
    running
  ),
  rule("decide-over", "A decision for a sandbox that is over is rejected sandbox_terminal.", async (world) => {
    const { approval, box } = await world.ended()
    outcome(await decide(world, box, approval, "approve"), "rejected sandbox_terminal", "approve")
  }, running),
  rule(
    "approval-unknown",
    "An approval that is unknown here, or another sandbox's, is 404 not_found.",
    async (world) => {
      refused(await decide(world, await world.worked(), "nonsense", "approve"), 404, "not_found", "an unknown approval")
      // Approval ids are unique only within a sandbox, so an id that this sandbox may have proves nothing.
      const { box } = await world.ended()
      refused(
        await decide(world, box, `${(await world.asking()).id}-none`, "approve"),
        404,
        "not_found",
        "an approval of another sandbox"
      )
    },
    running
  ),
  rule(
    "denial-reason",
    "The reason of a denial is in approval.resolved, and the agent has it: it says so, or it waits as a message.",
    async (world) => {
      const { approval, box, turn } = await world.pending()
      const reason = `Not there: ${approval}`
      outcome(await world.post(box, `/approvals/${encodeURIComponent(approval)}`, { decision: "deny", reason }), "applied", "deny")
      await box.turnEnd(turn)
      const log = await world.readLog(box)
      const resolved = log.find(({ data, type }) => type === "approval.resolved" && data.at("approval_id").value === approval)
      same(resolved?.data.at("reason").value, reason, "the reason")
      const told = log.filter(({ data, type }) =>
        /^message\.(?:updated|queued)$/u.test(type) && String(data.at("text").value).includes(reason)
      )
      holds(told.length > 0, "a message with the reason", told.length)
    },
    running
  ),
  rule(
    "approve-turn",
    "scope turn approves what else the turn asks for of the same kind, by policy, and nothing of the next turn.",
    async (world) => {
      const { approval, box, turn } = await world.pending(2)
      outcome(
        await world.post(box, `/approvals/${encodeURIComponent(approval)}`, { decision: "approve", scope: "turn" }),
        "applied",
        "approve"
      )
      await box.until(
        ({ data, turnId, type }) => turnId === turn && type === "approval.requested" && data.at("approval_id").value !== approval,
        0,
        "a second request for approval"
      )
      const resolved = (await world.readLog(box)).filter(({ turnId, type }) => turnId === turn && type === "approval.resolved")
      same(
        resolved.map(({ data }) => [data.at("outcome").value, data.at("by").value, data.at("scope").value]),
        [["approved", "user", "turn"], ["approved", "policy", undefined]],
        "the approvals"
      )
      await box.turnEnd(turn)
      const next = await world.pending()
      const open = (await world.readLog(next.box)).filter(({ turnId, type }) => turnId === next.turn && type === "approval.resolved")
      same(open.length, 0, "approvals of the next turn without a decision")
    },
    running
  ),
  rule("decision-body", "The body is {decision, with approve a scope, with deny a reason} and nothing else.", async (world) => {
    const path = `${UNKNOWN}/approvals/a`
    for (
      const body of [{}, { decision: "maybe" }, { decision: "Approve" }, { decision: null }, {
        decision: "approve",
        always: true
      }, { outcome: "approve" }, { decision: "approve", scope: "sandbox" }, { decision: "deny", scope: "turn" }, {
        decision: "approve",
        reason: "Yes."
      }, { decision: "deny", reason: "" }, { decision: "deny", reason: "x".repeat(2001) }, { decision: "deny", reason: null }]
    ) {
      refused(await world.http.ask(path, { body }), 400, "invalid_request", JSON.stringify(body))
    }
    refused(await world.http.ask(path, { method: "POST" }), 400, "invalid_request", "no body")
    for (const body of [{ decision: "deny" }, { decision: "deny", reason: "x".repeat(2000) }, { decision: "approve", scope: "turn" }]) {
      refused(await world.http.ask(path, { body }), 404, "not_found", "a valid body for a sandbox that does not exist")
    }
  }),
  rule("approval-id", "An approval id has 1 to 300 characters.", async (world) => {
    const ask = (n: number) => world.http.ask(`${UNKNOWN}/approvals/${"a".repeat(n)}`, { body: { decision: "deny" } })
    refused(await ask(300), 404, "not_found", "an approval id of 300 characters")
    refused(await ask(301), 400, "invalid_request", "one of 301")
  }, { source: "docs/decisions/12" }),
  {
    ...rule(
      "approval-expired",
      "A decision after the expiry of its approval is rejected approval_expired.",
      async () => {}
    ),
    untestable: "approvals expire after half an hour"
  }
]

const result201 = (reply: Reply) => answered(reply, 201, "a message").json
