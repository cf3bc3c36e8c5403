/**
 * The part of the Agent Client Protocol, version 1, that Slipway reads. Fields are optional where a strict schema would reject an
 * agent's additions. Names and values are the protocol's.
 */
import type { Finish } from "@slipway/domain/sandbox/ports/AgentRuntime"
import { type McpCall, type PlanEntry, type ToolKind, unifiedDiff } from "@slipway/domain/sandbox/rules/ToolCall"
import { Option, Schema } from "effect"
import { NativeId } from "../stdio/JsonLines.ts"
import type { ToolStatus } from "../TurnEvents.ts"

const nullish = <S extends Schema.Top>(schema: S) => Schema.optionalKey(Schema.NullOr(schema))

/** `category: "thought_level"` is the reasoning effort. */
const ConfigOption = Schema.Struct({ id: Schema.String, category: nullish(Schema.String) })

export const SessionOpened = Schema.Struct({
  /** Absent in the answer to `session/resume`. */
  sessionId: Schema.optionalKey(Schema.String),
  configOptions: nullish(Schema.Array(ConfigOption))
})

export const PromptEnded = Schema.Struct({ stopReason: Schema.String })

const Block = Schema.Union([
  Schema.Struct({ type: Schema.Literal("diff"), path: Schema.String, oldText: nullish(Schema.String), newText: Schema.String }),
  Schema.Struct({ type: Schema.Literal("content"), content: Schema.Struct({ type: Schema.String, text: nullish(Schema.String) }) }),
  Schema.Struct({ type: Schema.String })
])

const ToolFields = {
  toolCallId: NativeId,
  title: nullish(Schema.String),
  kind: nullish(Schema.String),
  status: nullish(Schema.String),
  locations: nullish(Schema.Array(Schema.Struct({ path: Schema.String }))),
  content: nullish(Schema.Array(Block)),
  /** The arguments of the tool in the agent's own format. */
  rawInput: Schema.optionalKey(Schema.Unknown),
  /** Extensions of agents. */
  _meta: Schema.optionalKey(Schema.Unknown)
}
export const ToolCall = Schema.Struct(ToolFields)
export type ToolCall = typeof ToolCall.Type

const Chunk = Schema.Struct({
  sessionUpdate: Schema.Literals(["agent_message_chunk", "agent_thought_chunk"]),
  messageId: nullish(NativeId),
  content: Schema.Struct({ type: Schema.String, text: Schema.optionalKey(Schema.String) })
})
const ToolUpdate = Schema.Struct({ sessionUpdate: Schema.Literals(["tool_call", "tool_call_update"]), ...ToolFields })

/** The whole plan, which replaces the one before. */
const Plan = Schema.Struct({
  sessionUpdate: Schema.Literal("plan"),
  entries: Schema.Array(Schema.Struct({ content: Schema.String, status: nullish(Schema.String) }))
})

/** `session/update`, as far as it concerns a turn. Other updates do not decode. */
export const SessionUpdate = Schema.Struct({ sessionId: Schema.String, update: Schema.Union([Chunk, ToolUpdate, Plan]) })

/** An update in an agent's own format: the sub-agent and its session. */
export const ExtensionUpdate = Schema.Struct({
  sessionId: Schema.String,
  update: Schema.Struct({
    sessionUpdate: Schema.String,
    subagent_id: nullish(NativeId),
    child_session_id: nullish(NativeId),
    description: nullish(Schema.String)
  })
})
export type ExtensionUpdate = (typeof ExtensionUpdate.Type)["update"]

/** The report that a steering text was taken, in an agent's own format. */
export const ExtensionSteered = Schema.Struct({ sessionId: Schema.String, messageId: NativeId })

export const PermissionRequest = Schema.Struct({
  sessionId: Schema.String,
  toolCall: ToolCall,
  options: Schema.Array(Schema.Struct({ optionId: NativeId, kind: Schema.String }))
})

export const toolKinds: Readonly<Record<string, ToolKind>> = {
  edit: "edit",
  delete: "edit",
  move: "edit",
  execute: "command",
  fetch: "network"
}

/** Arguments of tools in the formats of opencode and grok. */
const decodeInput = Schema.decodeUnknownOption(Schema.Record(Schema.String, Schema.Unknown))
const argumentsOf = ({ rawInput }: Pick<ToolCall, "rawInput">): Readonly<Record<string, unknown>> =>
  Option.getOrElse(decodeInput(rawInput), () => ({}))
/** The changes of each file in an opencode patch. */
const decodeFiles = Schema.decodeUnknownOption(
  Schema.Array(Schema.Struct({ filePath: Schema.String, type: nullish(Schema.String), movePath: nullish(Schema.String) }))
)

const decodeMeta = Schema.decodeUnknownOption(Schema.Struct({
  "slipway/parentToolCallId": nullish(NativeId),
  "x.ai/tool": nullish(Schema.Struct({ kind: nullish(Schema.String) }))
}))

/** The call whose sub-agent makes this call, if the agent names it; the offline agent does. */
export const parentOf = ({ _meta }: ToolCall): string | undefined =>
  Option.getOrUndefined(decodeMeta(_meta))?.["slipway/parentToolCallId"] ?? undefined

/** The task of a call that starts a sub-agent (grok); `null`: another call. */
export const taskOf = ({ _meta, rawInput }: ToolCall): string | null =>
  Option.getOrUndefined(decodeMeta(_meta))?.["x.ai/tool"]?.kind === "task" ? stringOf(argumentsOf({ rawInput })["description"]) ?? "" : null

const planStatuses: Readonly<Record<string, PlanEntry["status"]>> = { in_progress: "in_progress", completed: "completed" }

/** The steps of a plan. */
export const planOf = ({ entries }: typeof Plan.Type): ReadonlyArray<PlanEntry> =>
  entries.map(({ content, status }) => ({ text: content, status: planStatuses[status ?? ""] ?? "pending" }))

/** The tool and arguments of a call of one of these MCP servers; `undefined`: another call. */
export const mcpOf = (servers: ReadonlyArray<string>, { rawInput, title }: ToolCall): McpCall | undefined => {
  const given = argumentsOf({ rawInput })
  // Grok calls every server by one tool. It writes the variant, not the model.
  const isByName = given["variant"] === "UseTool" && typeof given["tool_name"] === "string"
  const named = isByName ? /^([a-z][a-z0-9-]*)__(.+)$/su.exec(String(given["tool_name"])) : /^([a-z][a-z0-9-]*)_(.+)$/su.exec(title ?? "")
  const [, server = "", tool = ""] = named ?? []
  if (!servers.includes(server)) return undefined
  return { server, tool, arguments: JSON.stringify(isByName ? given["tool_input"] ?? {} : given, null, 2) }
}

const stringOf = (value: unknown): string | undefined => typeof value === "string" ? value : undefined

/** The command, its folder and the address in a tool's arguments. */
export const inputOf = (call: ToolCall) => {
  const { command, cwd, url, workdir } = argumentsOf(call)
  return { command: stringOf(command), cwd: stringOf(workdir) ?? stringOf(cwd), url: stringOf(url) }
}

/** All files that an edit names in its locations, its diffs and its arguments. */
export const editedOf = ({ content, locations, rawInput }: ToolCall): ReadonlyArray<string> => {
  const { file_path, filePath, filepath, files } = argumentsOf({ rawInput })
  const patched = Option.getOrNull(decodeFiles(files))
  // With a list of files, `filepath` has all of them in one text.
  const named = patched?.flatMap(({ filePath, movePath }) => [filePath, ...(movePath == null ? [] : [movePath])]) ??
    [file_path, filePath, filepath].flatMap((path) => typeof path === "string" ? [path] : [])
  const diffs = (content ?? []).flatMap((block) => "newText" in block ? [block.path] : [])
  return [...new Set([...(locations ?? []).map(({ path }) => path), ...diffs, ...named])]
}

const REMOVAL = /^\*\*\* (?:Delete File|Move to):/mu

/** Whether an edit deletes or moves a file. `undefined`: the call is not an edit, or unknown. */
export const removesOf = ({ kind, rawInput }: ToolCall): boolean | undefined => {
  if (kind !== "edit") return kind === "delete" || kind === "move" ? true : undefined
  const given = argumentsOf({ rawInput })
  const files = Option.getOrNull(decodeFiles(given["files"]))
  if (files !== null) return files.some(({ movePath, type }) => movePath != null || type !== "add" && type !== "update")
  return Object.values(given).some((value) => typeof value === "string" && REMOVAL.test(value))
}

/** The changes of all files; `undefined`: the call does not name them. */
export const diffOf = ({ content, kind }: ToolCall, nameOf: (path: string) => string): string | undefined => {
  const diffs = (content ?? []).flatMap((block) => "newText" in block ? [block] : [])
  return diffs.length === 0
    ? undefined
    : diffs.map(({ newText, oldText, path }) => unifiedDiff(nameOf(path), oldText ?? null, kind === "delete" ? null : newText)).join("")
}

/** The output of a call. Before a call runs, some agents put its description in the same field. */
export const outputOf = ({ content, status }: ToolCall): string | undefined =>
  content == null || status == null || status === "pending"
    ? undefined
    : content.flatMap((block) => "content" in block && typeof block.content.text === "string" ? [block.content.text] : []).join("\n")

const verbs: Readonly<Record<string, string>> = { edit: "Edit", delete: "Delete", move: "Move", read: "Read" }

/** The title for people. Some agents send the tool's name or the bare path, others a phrase of both. */
export const titleOf = (title: string, kind: string | null | undefined, path: string | undefined): string => {
  const verb = verbs[kind ?? ""]
  return verb !== undefined && path !== undefined && (title === path || /^[\w-]+$/u.test(title)) ? `${verb} ${path}` : title
}

export const toolStatuses: Readonly<Record<string, ToolStatus>> = {
  pending: "pending",
  in_progress: "running",
  completed: "completed",
  failed: "error"
}

/** How the last message ended, by stop reason. */
export const finishes: Readonly<Record<string, Finish>> = {
  end_turn: "end_turn",
  max_tokens: "max_tokens",
  refusal: "refusal",
  cancelled: "cancelled"
}

/** Why a turn failed that ended with this stop reason. */
export const failures: Readonly<Record<string, string>> = {
  max_tokens: "The model reached its output limit.",
  max_turn_requests: "The agent reached its limit of model requests in one turn.",
  refusal: "The model refused to go on.",
  cancelled: "The agent cancelled the turn by itself."
}
