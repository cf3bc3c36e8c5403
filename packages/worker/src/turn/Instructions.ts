/** Instructions of repositories for agents: `AGENTS.md`, else `CLAUDE.md`. Agents do not read settings from repositories. */
import { type TreeKey, WorkingTrees } from "@slipway/domain/files/ports/WorkingTrees"
import type { SandboxId } from "@slipway/domain/ids/SandboxId"
import { Effect, Stream } from "effect"

const NAMES = ["AGENTS.md", "CLAUDE.md"]

/** The largest file of one repository in bytes. A larger file is left out. */
const MAXIMUM_BYTES = 32 * 1024

const readOne = Effect.fnUntraced(function*(key: TreeKey, path: string) {
  const trees = yield* WorkingTrees
  const { bytes } = yield* trees.open(key, path, MAXIMUM_BYTES)
  const decoder = new TextDecoder()
  const parts = yield* Stream.runCollect(bytes)
  const text = parts.map((part) => decoder.decode(part, { stream: true })).join("") + decoder.decode()
  return text.trim() === "" ? null : text
}, Effect.scoped)

/** The first of the files that exists. */
const readFirst = Effect.fnUntraced(function*(key: TreeKey) {
  for (const name of NAMES) {
    const text = yield* readOne(key, name).pipe(
      Effect.catchTags({
        FileNotFound: () => Effect.succeed(null),
        IsDirectory: () => Effect.succeed(null),
        FileProtected: () =>
          Effect.as(Effect.logInfo("instructions to agents are left out: the file is protected", { ...key, name }), null),
        FileTooLarge: () => Effect.as(Effect.logInfo("instructions to agents are left out: the file is too large", { ...key, name }), null)
      })
    )
    if (text !== null) return text
  }
  return null
})

/** The limit of all repositories together, because every request to the model has them. Later repositories are left out. */
const MAXIMUM_CHARACTERS = 128 * 1024

/** As Markdown, with a heading for each repository that has instructions; `null`: no repository has any. */
export const readInstructions = Effect.fn("Instructions.read")(function*(
  sandboxId: SandboxId,
  repositories: ReadonlyArray<{ readonly name: string; readonly folder: string }>
) {
  let instructions = ""
  for (const { folder, name } of repositories) {
    const text = yield* readFirst({ sandboxId, repo: name })
    if (text === null) continue
    const part = `# ${name} (in the folder ${folder})\n\n${text.trim()}\n`
    if (instructions.length + part.length > MAXIMUM_CHARACTERS) {
      yield* Effect.logInfo("instructions to agents are left out: the repositories together have too many", { sandboxId, repo: name })
    } else instructions += instructions === "" ? part : `\n${part}`
  }
  return instructions === "" ? null : instructions
})
