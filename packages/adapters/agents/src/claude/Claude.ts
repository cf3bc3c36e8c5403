/**
 * The part of claude's stream-json protocol that Slipway reads. Fields are optional and unknown messages do not decode, so that
 * additions of the protocol do no harm. Names are the protocol's.
 */
import type { Answer, Question } from "@slipway/domain/sandbox/rules/Question"
import { type McpCall, type PlanEntry, type ToolKind, unifiedDiff } from "@slipway/domain/sandbox/rules/ToolCall"
import { Option, Schema } from "effect"
import { NativeId } from "../stdio/JsonLines.ts"

const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

const Input = Schema.Record(Schema.String, Schema.Unknown)
export type Input = typeof Input.Type

const Control = Schema.Struct({
  type: Schema.Literal("control_request"),
  request_id: NativeId,
  request: Schema.Struct({
    subtype: Schema.String,
    tool_name: Schema.optionalKey(Schema.String),
    tool_use_id: nullish(NativeId),
    /** The sub-agent, for its call. */
    agent_id: nullish(NativeId),
    input: Schema.optionalKey(Input)
  })
})

const ControlResponse = Schema.Struct({
  type: Schema.Literal("control_response"),
  response: Schema.Struct({ request_id: NativeId, subtype: Schema.String, error: Schema.optionalKey(Schema.String) })
})

/** The beginning of a turn (`init`) names the session, the end of a sub-agent (`task_notification`) the sub-agent. */
const System = Schema.Struct({
  type: Schema.Literal("system"),
  subtype: Schema.String,
  session_id: Schema.optionalKey(Schema.String),
  task_id: nullish(NativeId),
  status: nullish(Schema.String)
})

const StreamEvent = Schema.Struct({
  type: Schema.Literal("stream_event"),
  parent_tool_use_id: nullish(NativeId),
  event: Schema.Union([
    Schema.Struct({ type: Schema.Literal("message_start"), message: Schema.Struct({ id: NativeId }) }),
    Schema.Struct({
      type: Schema.Literal("content_block_delta"),
      index: Schema.Finite,
      delta: Schema.Union([
        Schema.Struct({ type: Schema.Literal("text_delta"), text: Schema.String }),
        Schema.Struct({ type: Schema.Literal("thinking_delta"), thinking: Schema.String })
      ])
    })
  ])
})

const ToolUse = Schema.Struct({ type: Schema.Literal("tool_use"), id: NativeId, name: Schema.String, input: Input })
const ToolResult = Schema.Struct({
  type: Schema.Literal("tool_result"),
  tool_use_id: NativeId,
  is_error: nullish(Schema.Boolean),
  /** A text, or blocks, some of which have a text. */
  content: Schema.optionalKey(Schema.Unknown)
})
type ToolResult = typeof ToolResult.Type
const Other = Schema.Struct({ type: Schema.String })

/** A whole message of the model. Its text was streamed before. */
const Assistant = Schema.Struct({
  type: Schema.Literal("assistant"),
  parent_tool_use_id: nullish(NativeId),
  message: Schema.Struct({ content: Schema.Array(Schema.Union([ToolUse, Other])) })
})

/** The input of the model: results of its tools. */
const User = Schema.Struct({
  type: Schema.Literal("user"),
  parent_tool_use_id: nullish(NativeId),
  message: Schema.Struct({ content: Schema.Array(Schema.Union([ToolResult, Other])) })
})

/** The state of a message that was sent with our id during a turn. `started`: the model has it. */
const CommandLifecycle = Schema.Struct({ type: Schema.Literal("command_lifecycle"), command_uuid: NativeId, state: Schema.String })

/** The end of a turn. */
const TurnResult = Schema.Struct({
  type: Schema.Literal("result"),
  subtype: Schema.String,
  is_error: Schema.optionalKey(Schema.Boolean),
  result: nullish(Schema.String),
  errors: nullish(Schema.Array(Schema.String)),
  stop_reason: nullish(Schema.String),
  /** The cost of the whole session, including earlier processes. */
  total_cost_usd: nullish(Schema.Finite)
})
export type TurnResult = typeof TurnResult.Type

export const Message = Schema.Union([Control, ControlResponse, StreamEvent, Assistant, User, CommandLifecycle, TurnResult, System])
export type Message = typeof Message.Type
export type ControlRequest = typeof Control.Type

/** The tool that asks the person a question. */
export const QUESTION = "AskUserQuestion"

const decodeAsked = Schema.decodeUnknownOption(Schema.Struct({
  questions: Schema.Array(Schema.Struct({
    question: Schema.String,
    header: nullish(Schema.String),
    options: nullish(Schema.Array(Schema.Struct({ label: Schema.String, description: nullish(Schema.String) }))),
    multiSelect: nullish(Schema.Boolean)
  }))
}))

/** The questions of a call of {@link QUESTION}, by their texts; `null`: it has none that can be read. */
export const questionsOf = (input: Input): ReadonlyArray<Question> | null =>
  Option.getOrNull(Option.map(decodeAsked(input), ({ questions }) =>
    questions.map(({ header, multiSelect, options, question }) => ({
      id: question,
      text: question,
      ...(header == null ? {} : { header }),
      options: (options ?? []).map(({ description, label }) => ({ label, ...(description == null ? {} : { description }) })),
      multiple: multiSelect === true,
      // Its own client always offers to write another answer.
      allows_text: true
    }))))

/** The input of the call with the answers in it, by the texts of the questions: so its own client answers (2.1.332). */
export const answered = (input: Input, questions: ReadonlyArray<Question>, answers: ReadonlyArray<Answer | null>): Input => ({
  ...input,
  answers: Object.fromEntries(questions.flatMap(({ text }, index) => {
    const answer = answers[index]
    return answer == null ? [] : [[text, [...answer.labels ?? [], ...(answer.text === undefined ? [] : [answer.text])].join(", ")]]
  }))
})

const Todos = Schema.Struct({ todos: Schema.Array(Schema.Struct({ content: Schema.String, status: nullish(Schema.String) })) })
const decodeTodos = Schema.decodeUnknownOption(Todos)
const decodeNewTask = Schema.decodeUnknownOption(Schema.Struct({ subject: Schema.String }))
const decodeTaskChange = Schema.decodeUnknownOption(
  Schema.Struct({ taskId: NativeId, subject: nullish(Schema.String), status: nullish(Schema.String) })
)

const planStatus = (status: string | null | undefined): PlanEntry["status"] =>
  status === "in_progress" || status === "completed" ? status : "pending"

/** A call that changes the list of tasks. Claude has either one tool for the whole list or a tool for each change. */
export type TaskCall =
  | { readonly _tag: "All"; readonly entries: ReadonlyArray<PlanEntry> }
  | { readonly _tag: "New"; readonly text: string }
  | { readonly _tag: "Change"; readonly id: string; readonly text?: string; readonly status?: PlanEntry["status"] | "deleted" }

/** `null`: the call does not change the list of tasks. */
export const taskCallOf = (name: string, input: Input): TaskCall | null => {
  switch (name) {
    case "TodoWrite":
      return Option.getOrNull(Option.map(decodeTodos(input), ({ todos }): TaskCall => ({
        _tag: "All",
        entries: todos.map(({ content, status }) => ({ text: content, status: planStatus(status) }))
      })))
    case "TaskCreate":
      return Option.getOrNull(Option.map(decodeNewTask(input), ({ subject }): TaskCall => ({ _tag: "New", text: subject })))
    case "TaskUpdate":
      return Option.getOrNull(Option.map(decodeTaskChange(input), ({ status, subject, taskId }): TaskCall => ({
        _tag: "Change",
        id: taskId,
        ...(subject == null ? {} : { text: subject }),
        ...(status == null ? {} : { status: status === "deleted" ? status : planStatus(status) })
      })))
    default:
      return null
  }
}

/** The id of a new task in the result of its call: `Task #3 created …`. */
export const newTaskId = (output: string | undefined): string | undefined => /#(\w{1,40})/u.exec(output ?? "")?.[1]

const tools: Readonly<Record<string, { readonly kind: ToolKind; readonly verb?: string; readonly about: string }>> = {
  Bash: { kind: "command", about: "command" },
  Write: { kind: "edit", verb: "Write", about: "file_path" },
  Edit: { kind: "edit", verb: "Edit", about: "file_path" },
  MultiEdit: { kind: "edit", verb: "Edit", about: "file_path" },
  NotebookEdit: { kind: "edit", verb: "Edit", about: "notebook_path" },
  Read: { kind: "other", verb: "Read", about: "file_path" },
  Glob: { kind: "other", verb: "Find", about: "pattern" },
  Grep: { kind: "other", verb: "Search", about: "pattern" },
  WebFetch: { kind: "network", verb: "Fetch", about: "url" },
  WebSearch: { kind: "network", verb: "Search the web:", about: "query" }
}

const decodeEdits = Schema.decodeUnknownOption(Schema.Array(Schema.Struct({
  old_string: Schema.String,
  new_string: Schema.String,
  replace_all: nullish(Schema.Boolean)
})))
const decodeContent = Schema.decodeUnknownOption(Schema.Struct({ content: Schema.String }))

/** The diff of an edit; `undefined`: an unknown tool. */
const diffOf = (name: string, path: string, input: Input): string | undefined => {
  if (name === "Write") return Option.getOrUndefined(Option.map(decodeContent(input), ({ content }) => unifiedDiff(path, "", content)))
  if (name !== "Edit" && name !== "MultiEdit") return undefined
  return Option.getOrUndefined(
    Option.map(
      decodeEdits(name === "Edit" ? [input] : input["edits"]),
      (edits) =>
        edits.map(({ new_string, old_string, replace_all }) =>
          `${replace_all === true ? "Wherever it stands:\n" : ""}${unifiedDiff(path, old_string, new_string)}`
        ).join("")
    )
  )
}

/** The output of a tool. */
export const outputOf = ({ content }: ToolResult): string | undefined =>
  typeof content === "string"
    ? content
    : Array.isArray(content)
    ? content.flatMap((block: unknown) => Option.getOrUndefined(decodeText(block))?.text ?? []).join("\n")
    : undefined
const decodeText = Schema.decodeUnknownOption(Schema.Struct({ text: Schema.String }))

/** `mcp__SERVER__TOOL`: names of servers have no underscore. */
const mcpOf = (name: string, input: Input): McpCall | undefined => {
  const [, server, tool] = /^mcp__([a-z0-9-]+)__(.+)$/su.exec(name) ?? []
  return server === undefined || tool === undefined ? undefined : { server, tool, arguments: JSON.stringify(input, null, 2) }
}

/** The title of a tool call for people, its kind, its effect and its file. */
export const describe = (name: string, input: Input, nameOf: (path: string) => string) => {
  const mcp = mcpOf(name, input)
  const tool = Object.hasOwn(tools, name) ? tools[name] : undefined
  const subject = tool === undefined ? undefined : input[tool.about]
  const about = typeof subject === "string" ? subject : undefined
  return {
    title: mcp !== undefined
      ? `${mcp.server}: ${mcp.tool}`
      : about === undefined
      ? name
      : [tool?.verb, about].filter((word) => word !== undefined).join(" "),
    kind: mcp !== undefined ? "mcp" : tool?.kind ?? "other",
    mcp,
    paths: tool?.kind === "edit" && about !== undefined ? [about] : undefined,
    // It has no tool that deletes or moves files.
    removes: tool?.kind === "edit" ? false : undefined,
    command: tool?.kind === "command" ? about : undefined,
    url: tool?.about === "url" ? about : undefined,
    diff: about === undefined ? undefined : diffOf(name, nameOf(about), input)
  } as const
}
