import { type Plants, plantsIn } from "./Plant.ts"

const files = "profile === \"offline\" ? [SESSIONS] : []"
const kept = "const kept = resume === null ? \"\" : files.get(fileOfSession(resume))"
const nextId = "`${prefix}_${turnId}_${session.nextNumber()}`"
const begin = "Effect.andThen(prompt.onBegin ?? Effect.void, run(session, turn, prompt))"
const pushed = "performance.subAgents.push(about)"
const cancel = "if (turn.ended !== null || decided === undefined) return yield* failed(\"Cancelled.\")"

export const plants: Plants = {
  port: "AgentRuntime",
  subject: "packages/testing/test/sandbox/AgentRuntime.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/sandbox/OfflineTurn.ts", [
      ["says a thought and its text in two messages", "kind === \"text\" && thought !== null ? thought : nextId(performance, \"msg\")",
        "nextId(performance, \"msg\")"],
      ["tells what was added to a text", "text: said })\n    yield* pause", "text: `word${word} ` })\n    yield* pause"],
      ["asks in auto mode", "if (toolApprovalMode === \"prompt\")", "if (true)"],
      ["asks for no approval", "if (toolApprovalMode === \"prompt\")", "if (false)"],
      ["edits before it asks", "yield* updated(\"pending\")\n", "yield* updated(\"pending\")\n  work()\n"],
      ["does what was denied", "decided.decision !== \"approve\"", "false"],
      ["says that what was denied is done", "yield* failed(\"Denied.\")", "yield* updated(\"completed\")"],
      ["does not hear why it was denied", "decided.reason === undefined ? \"\"", "true ? \"\""],
      ["asks with paths of the repository", "[`${folder}/${normal}`]", "[normal]"],
      ["shows what is there before it asks", "before ?? null, content(before))", "null, before ?? null)"],
      ["asks no person", "yield* onEvent({ _tag: \"QuestionAsked\", questionId, questions })", ""],
      ["makes up an answer", "pause(performance, Deferred.await(answered))",
        "pause(performance, Effect.succeed({ 1: { text: \"Yes.\" } }))"],
      ["does not hear the answer", "answersSaid(questions, answers ?? null)", "answersSaid(questions, null)"],
      ["goes on with the turn after an interrupt during a question", "if (turn.ended === null) yield* speak(performance, answersSaid",
        "yield* speak(performance, answersSaid"],
      ["takes first what it was steered with last", "turn.steers.shift()", "turn.steers.pop()"],
      ["forgets what it was steered with", "remember(steer.text)", ""],
      ["does not tell what it took", "yield* onEvent({ _tag: \"MessageSteered\", messageId: steer.id })", ""],
      ["drops the images of a prompt", "images, before:", "images: [], before:"],
      ["gives ids again", nextId, "`${prefix}_1`"],
      ["gives ids again in a new process", nextId, "`${prefix}_${session.process.drawn = (session.process.drawn ?? 0) + 1}`"],
      ["says that an interrupted turn succeeded", "isOver(turn) ? \"interrupted\" : \"succeeded\"", "\"succeeded\""],
      ["leaves a call open when it is interrupted", cancel, cancel.replace("yield* failed(\"Cancelled.\")", "")],
      ["does what it asks for when it is interrupted", cancel, ""],
      ["tells the first step of a plan alone", "entries: ToolCall.shownPlan(entries)", "entries: ToolCall.shownPlan(entries).slice(0, 1)"],
      ["tells a plan as it came", "entries: ToolCall.shownPlan(entries)", "entries"],
      ["does not say that a plan was dropped", "yield* performance.onEvent({ _tag: \"PlanUpdated\"",
        "if (entries.length > 0) yield* performance.onEvent({ _tag: \"PlanUpdated\""],
      ["says of no call that it is a sub-agent's", "{ parentCallId: parent.callId }", "{}"],
      ["names the outermost call for each sub-agent's call", "subAgents.at(-1)", "subAgents.at(0)"],
      ["says that a call is its own parent", pushed,
        `${pushed}\n  yield* performance.onEvent({ _tag: "ToolUpdated", callId, tool, status: "running", parentCallId: callId })`],
      ["does not say why a turn failed", "{ state: \"failed\", reason: body }", "{ state: \"failed\" }"]
    ]),
    ...plantsIn("packages/domain/memory/sandbox/AgentRuntimeMemory.ts", [
      ["takes a decision for another approval", "current?.approvals.get(approvalId)",
        "Array.from(current?.approvals.values() ?? []).at(0)"],
      ["takes an answer for another question", "current?.questions.get(questionId)", "Array.from(current?.questions.values() ?? []).at(0)"],
      ["takes twice what it was steered with twice", " || current.handed.has(message.id)) return", ") return"],
      ["remembers what the turn ended without", "current.steers.push(message)", "current.steers.push(message); earlier.push(message.text)"],
      ["begins when it is over", begin, "Effect.tap(run(session, turn, prompt), prompt.onBegin ?? Effect.void)"],
      ["gives up for good when it died during a turn", "() => failure(\"prompt\", \"The agent has ended.\", true)",
        "() => failure(\"prompt\", \"The agent has ended.\", false)"],
      ["gives up for good when it is gone", "if (gone) return Effect.fail(failure(\"prompt\", \"The agent has ended.\", true))",
        "if (gone) return Effect.fail(failure(\"prompt\", \"The agent has ended.\", false))"],
      ["forgets the session in a new process", "promptsIn(kept)\n", "[]\n"],
      ["goes on with a session under another id", "resume ?? fresh(", "fresh("],
      ["begins anew where a session never was", kept, `${kept} ?? ""`],
      ["may find a session later that never was", "\"There is no such session.\", false", "\"There is no such session.\", true"],
      ["may find a profile later that is not there", "\"There is no such agent here.\", false", "\"There is no such agent here.\", true"],
      ["names files of any profile", files, "[SESSIONS]"],
      ["names one file of its conversations", files, "profile === \"offline\" ? [`${SESSIONS}/session_1`] : []"],
      ["bears other paths whatever the profile", "workspace: profile === \"offline\"", "workspace: true"],
      ["does not say how it ended", "`the agent ended (${signal ?? `code ${code}`})`", "\"\""]
    ])
  ]
}
