/** Feedback that people give to sandboxes, which becomes a message and gets one reply. */
import { answered, refused } from "../client/Client.ts"
import { filled, fits, holds, object, same } from "../client/Expect.ts"
import { UNKNOWN } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("feedback", "docs/decisions/24")
const running = { needs: ["repo"] } as const

/** A comment on a line, of which each line has to be quoted. */
const COMMENT = "Conformance: [[say Done.]]\nPlease."

const done = object({ commandId: filled, outcome: filled, turnId: filled, sandboxId: filled }, { open: true })

/** The rules of this file. */
export const rules = [
  rule("body", "A request for changes has text, comments or checks, within their limits.", async (world) => {
    const bad: ReadonlyArray<object> = [
      {},
      { text: "" },
      { comments: [] },
      { checks: false },
      { checks: "yes" },
      { text: "x".repeat(60_001) },
      { text: "x", another: true },
      { comments: [{ text: "x" }] },
      { comments: [{ path: "", text: "x" }] },
      { comments: [{ path: "a", line: 0, text: "x" }] },
      { comments: [{ path: "a", line: 1.5, text: "x" }] },
      { comments: [{ path: "a", text: "x".repeat(10_001) }] },
      { comments: Array.from({ length: 101 }, () => ({ path: "a", text: "x" })) }
    ]
    for (const body of bad) {
      const reply = await world.http.ask(`${UNKNOWN}/feedback`, { method: "POST", body })
      refused(reply, 400, "invalid_request", JSON.stringify(body).slice(0, 90))
    }
  }),
  rule(
    "round",
    "A request for changes is feedback.received, a turn of the service that quotes each line, and one feedback.replied.",
    async (world) => {
      const { box } = await world.continued()
      await box.idle()
      const before = (await world.readLog(box)).at(-1)?.id ?? 0
      const body = { text: "Be brief.", comments: [{ path: "README.md", line: 1, text: COMMENT }] }
      const { json } = answered(await world.post(box, "/feedback", body), 200, "a request for changes")
      fits(json.value, done, "the answer")
      same([json.at("outcome").value, json.at("sandboxId").value], ["applied", box.id], "outcome and sandbox")
      const turn = json.at("turnId").string
      const last = box.events.at(-1)?.id ?? 0
      await box.until(({ type }) => type === "feedback.replied", last, "the reply to feedback")
      const log = (await world.readLog(box)).filter(({ id }) => id > before)
      const received = log.filter(({ type }) => type === "feedback.received")
      same(received.map(({ turnId }) => turnId), [turn], "the turn of feedback.received")
      const { data } = received[0] ?? {}
      same(
        [data?.at("repo").value, data?.at("kind").value, data?.at("count").value],
        [world.repo, "review", 2],
        "repository, kind and number of items"
      )
      const started = log.filter(({ turnId, type }) => type === "turn.started" && turnId === turn)
      same(started.length, 1, "starts of its turn")
      const text = started[0]?.data.at("text").string ?? ""
      for (const line of ["> Be brief.", ...COMMENT.split("\n").map((line) => `> ${line}`)]) {
        holds(text.split("\n").includes(line), `a line ${JSON.stringify(line)} in the message`, text)
      }
      same(log.filter(({ type }) => type === "feedback.replied").length, 1, "replies")
    },
    running
  ),
  rule("checks", "A request to fix the failing checks is 409 no_failing_checks if none failed.", async (world) => {
    const { box } = await world.continued()
    refused(await world.post(box, "/feedback", { checks: true }), 409, "no_failing_checks", "checks without failures")
  }, running),
  rule("over", "A request for changes of a finished sandbox without a pull request is 409 sandbox_not_running.", async (world) => {
    const box = await world.failed()
    refused(await world.post(box, "/feedback", { text: "Again." }), 409, "sandbox_not_running", "a request after the end")
  }, running),
  rule("resume", "Continuing feedback that is not paused is applied, and writes nothing.", async (world) => {
    const box = await world.failed()
    const before = (await world.readLog(box)).length
    for (const what of ["once", "again"]) {
      const { json } = answered(await world.post(box, "/feedback/resume"), 200, `continuing ${what}`)
      same(json.at("outcome").value, "applied", `outcome of continuing ${what}`)
    }
    same((await world.readLog(box)).length, before, "events of the sandbox")
  }, running),
  rule("unknown", "Feedback for a sandbox that does not exist is 404 not_found.", async (world) => {
    refused(await world.http.ask(`${UNKNOWN}/feedback`, { method: "POST", body: { text: "x" } }), 404, "not_found", "a request for changes")
    refused(await world.http.ask(`${UNKNOWN}/feedback/resume`, { method: "POST" }), 404, "not_found", "continuing")
  })
]
