/** The visible details of a tool call, as they are stored and sent. */
import * as Schema from "effect/Schema"

/** The kind of a tool call, if the runtime reports it. `mcp`: a tool of an MCP server. */
export const ToolKind = Schema.Literals(["edit", "command", "network", "mcp", "other"])
export type ToolKind = typeof ToolKind.Type

/** The effect of an allowed call; at most {@link PREVIEW_BYTES} in total. */
export const Preview = Schema.Struct({
  command: Schema.optionalKey(Schema.String).annotateKey({
    description: "The whole command with its line feeds, or a tool's arguments. Never cut."
  }),
  diff: Schema.optionalKey(Schema.String).annotateKey({
    description: "The change as of `diff -u`. Too long: cut, with a mark at its end."
  }),
  cwd: Schema.optionalKey(Schema.String).annotateKey({
    description: "The command's folder, relative to the workspace. Absent: the workspace. Never cut."
  }),
  url: Schema.optionalKey(Schema.String).annotateKey({ description: "The requested address. Never cut." }),
  server: Schema.optionalKey(Schema.String).annotateKey({ description: "The MCP server of the tool." }),
  tool: Schema.optionalKey(Schema.String).annotateKey({ description: "The tool of the MCP server." }),
  arguments: Schema.optionalKey(Schema.String).annotateKey({ description: "The complete arguments of that tool, as JSON. Never cut." })
})
export type Preview = typeof Preview.Type

/** The progress of a call: at most {@link PREVIEW_BYTES} of the command and {@link OUTPUT_BYTES} of the output. */
export const Detail = Schema.Struct({
  command: Schema.optionalKey(Schema.String).annotateKey({ description: "The command; above 64 KiB cut, with a mark." }),
  paths: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({ description: "Its files, relative to the workspace." }),
  output: Schema.optionalKey(Schema.String).annotateKey({
    description: "The end of its output, at most 8 KiB, with a mark if it was cut."
  }),
  server: Schema.optionalKey(Schema.String).annotateKey({ description: "The MCP server of the tool." }),
  tool: Schema.optionalKey(Schema.String).annotateKey({ description: "The tool of the MCP server." }),
  arguments: Schema.optionalKey(Schema.String).annotateKey({
    description: "The arguments of that tool, as JSON; above 64 KiB cut, with a mark."
  })
})
export type Detail = typeof Detail.Type
