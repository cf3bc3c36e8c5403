/** Choices of a person in a terminal, for arguments that the command line lacks. */
import type { Sandbox } from "@slipway/client"
import { visible } from "@slipway/domain/text/EscapeInvisible"
import * as Prompt from "effect/cli/Prompt"
import * as Effect from "effect/Effect"
import { ago } from "../../terminal/Age.ts"
import { ExitCode } from "../../terminal/ExitCodes.ts"
import { beginning } from "../../terminal/Output.ts"
import { stateOf } from "./ListSandboxes.ts"
import { CommandFailed, type Server } from "./Server.ts"

/** Lines of the list that are shown at once. */
const SHOWN = 12

const choose = Effect.fnUntraced(function*(message: string, titles: ReadonlyMap<string, string>) {
  const choices = Array.from(titles, ([value, title]) => ({ title: visible(title), value }))
  return yield* Prompt.run(Prompt.AutoComplete({ message, choices, maxPerPage: SHOWN })).pipe(
    Effect.mapError(() => new CommandFailed({ detail: "nothing was chosen.", exitCode: ExitCode.detached }))
  )
})

/** The newest 100 sandboxes of the key's grant, with ended ones. */
const newest = ({ call, client }: Server) => Effect.map(call((signal) => client.listSandboxes({}, { signal })), ({ data }) => data)

const titleOf = (sandbox: Sandbox) => {
  const { createdAt, id, repos, title } = sandbox
  const names = repos.map(({ fullName }) => fullName).join(" ")
  return [id, names, beginning(title), stateOf(sandbox), ago(createdAt, Date.now())].join(" · ")
}

/** The id of the chosen sandbox. `missing`: the failure without a person who could choose. */
export const sandbox = Effect.fnUntraced(function*(server: Server, missing: CommandFailed) {
  if (!process.stdin.isTTY || !process.stdout.isTTY) return yield* missing
  const found = yield* newest(server)
  if (found.length === 0) return yield* missing
  return yield* choose("Sandbox", new Map(found.map((one) => [one.id, titleOf(one)])))
})

/** A repository of the newest sandboxes. `missing`: as for {@link sandbox}. */
export const repository = Effect.fnUntraced(function*(server: Server, missing: CommandFailed) {
  if (!process.stdin.isTTY || !process.stdout.isTTY) return yield* missing
  const found = (yield* newest(server)).flatMap(({ repos }) => repos.map(({ fullName }) => fullName))
  if (found.length === 0) return yield* missing
  return yield* choose("Repository", new Map(found.map((name) => [name, name])))
})
