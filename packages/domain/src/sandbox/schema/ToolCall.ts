/** The visible details of a tool call, as they are stored and sent. */
import * as Schema from "effect/Schema"

/** The kind of a tool call, if the runtime reports it. */
export const ToolKind = Schema.Literals(["edit", "command", "network", "other"])
export type ToolKind = typeof ToolKind.Type

/** The effect of an allowed call; at most {@link PREVIEW_BYTES} in total. */
export const Preview = Schema.Struct({
  command: Schema.optionalKey(Schema.String).annotateKey({
    description: "The whole command with its line feeds, or of a tool that runs none its arguments. Never cut."
  }),
  diff: Schema.optionalKey(Schema.String).annotateKey({
    description: "The change as of `diff -u`. Cut, with a mark at its end, where it is larger than there is room."
  }),
  cwd: Schema.optionalKey(Schema.String).annotateKey({
    description: "The folder in which the command runs, relative to the workspace. Absent: the workspace. Never cut."
  }),
  url: Schema.optionalKey(Schema.String).annotateKey({ description: "What will be asked for over the network. Never cut." })
})
export type Preview = typeof Preview.Type

/** The progress of a call: at most {@link PREVIEW_BYTES} of the command and {@link OUTPUT_BYTES} of the output. */
export const Detail = Schema.Struct({
  command: Schema.optionalKey(Schema.String).annotateKey({ description: "The command; cut, with a mark, above 64 KiB." }),
  paths: Schema.optionalKey(Schema.Array(Schema.String)).annotateKey({ description: "Files it is about, relative to the workspace." }),
  output: Schema.optionalKey(Schema.String).annotateKey({
    description: "The end of what it wrote, at most 8 KiB, with a mark where something came before."
  })
})
export type Detail = typeof Detail.Type
