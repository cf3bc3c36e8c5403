/** The stored keys of servers, as Effects: `slipway auth login` writes them, and commands that talk to a server read them. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as StoredKeys from "./server/StoredKeys.ts"

export { file, serverOf } from "./server/StoredKeys.ts"

/** The file or its folder is not safe to use, or cannot be read or written. Says what to do, and contains no key. */
export class UnusableCredentials extends Schema.TaggedError<UnusableCredentials>()("UnusableCredentials", { detail: Schema.String }) {
  override get message() {
    return this.detail
  }
}

const attempt = <A>(work: () => A) =>
  Effect.try({
    try: work,
    catch: (error) => new UnusableCredentials({ detail: StoredKeys.refusalOf(StoredKeys.file(), error).message })
  })

/** The stored key for the server. `server`: from {@link StoredKeys.serverOf}. */
export const find = Effect.fn("Credentials.find")(function*(server: string) {
  const key = yield* attempt(() => StoredKeys.find(server))
  return Option.map(Option.fromUndefinedOr(key), (key) => Redacted.make(key))
})

/** The servers with a stored key. */
export const servers = Effect.suspend(() => {
  const at = StoredKeys.file()
  return Effect.map(attempt(() => StoredKeys.readStored(at)), (stored) => Object.keys(stored.servers).sort())
})

/** Stores the key for the server and replaces the previous one. Safe to repeat. */
export const keep = Effect.fn("Credentials.keep")(function*(server: string, key: Redacted.Redacted) {
  const at = StoredKeys.file()
  yield* attempt(() => StoredKeys.change(at, (stored) => ({ servers: { ...stored.servers, [server]: { key: Redacted.value(key) } } })))
})

/** Removes the stored key for the server, and answers whether there was one. The key stays valid until it is revoked at the server. */
export const forget = Effect.fn("Credentials.forget")(function*(server: string) {
  const at = StoredKeys.file()
  return yield* attempt(() => {
    if (!Object.hasOwn(StoredKeys.readStored(at).servers, server)) return false
    StoredKeys.change(at, (stored) => ({ servers: Object.fromEntries(Object.entries(stored.servers).filter(([name]) => name !== server)) }))
    return true
  })
})
