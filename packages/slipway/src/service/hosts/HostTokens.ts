/** The tokens of the service at hosts that take access tokens. Files are read for each operation, so a replaced file counts at once. */
import { Redaction } from "@slipway/domain/environment/redaction/Redaction"
import { SourceHostError } from "@slipway/domain/source/ports/SourceHost"
import { Effect, Redacted } from "effect"
import { readFile } from "node:fs/promises"
import { type HostTokens, settings } from "../../settings/SourceHosts.ts"

/** Whether `path` is `of` or below it, in any case of letters. */
const isWithin = (path: string, of: string): boolean => `${path.toLowerCase()}/`.startsWith(`${of.toLowerCase()}/`)

/** The file with the token for a project or group; an empty path is the whole host. The longest path wins. `null`: no token is for it. */
export const fileFor = ({ tokenFile, tokens }: Pick<HostTokens, "tokenFile" | "tokens">, path: string): string | null =>
  tokens.filter((token) => isWithin(path, token.path)).toSorted((a, b) => b.path.length - a.path.length)[0]?.file ?? tokenFile

const failed = (detail: string) => new SourceHostError({ operation: "find the token", detail, retryable: false })

/** `name`: of the host. The token for a path, for one operation. */
export const tokenFor = (host: HostTokens & { readonly name: string }) =>
  Effect.fnUntraced(function*(path: string) {
    const file = fileFor(host, path)
    if (file === null) {
      return yield* failed(
        `No token of ${host.name} is for ${path === "" ? "the whole host" : path}. Add a token to its entry in ${settings.file.name}.`
      )
    }
    const text = yield* Effect.tryPromise({
      try: () => readFile(file, "utf8"),
      catch: () => failed(`The file with a token of ${host.name} cannot be read: see ${settings.file.name}.`)
    })
    const token = text.trim()
    if (!/^[\x21-\x7e]{8,4096}$/u.test(token)) {
      return yield* failed(`The file with a token of ${host.name} must have the token and nothing else: see ${settings.file.name}.`)
    }
    yield* Redaction.useSync((redactor) => redactor.learn(token))
    return Redacted.make(token)
  })
