/** Which methods an address answers to: for `Allow`, OPTIONS and 405. */
import { Effect, type Scope } from "effect"
import { HttpApi } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { InternalApi } from "../api/InternalApi.ts"

interface Address {
  readonly pattern: RegExp
  readonly methods: Set<string>
}

/** An event stream has no headers worth asking for without it. */
const WITHOUT_HEAD = /\/stream$/u

const addresses = new Map<string, Address>()
const declare = (path: string, method: string) => {
  const known = addresses.get(path)
  const methods = known?.methods ?? new Set<string>()
  methods.add(method)
  if (method === "GET" && !WITHOUT_HEAD.test(path)) methods.add("HEAD")
  if (known === undefined) addresses.set(path, { methods, pattern: new RegExp(`^${path.replaceAll(/:\w+/gu, "[^/]+")}$`, "u") })
}

const declaring = {
  onGroup: () => {},
  onEndpoint: ({ endpoint: { method, path } }: { readonly endpoint: { readonly method: string; readonly path: string } }) =>
    declare(path, method)
}
HttpApi.reflect(Api, declaring)
HttpApi.reflect(InternalApi, declaring)
declare("/openapi.json", "GET")
declare("/docs", "GET")
declare("/docs/:file", "GET")

/** A route outside of the API that is there until the scope closes. */
export const declared = (path: string, method: string): Effect.Effect<void, never, Scope.Scope> =>
  Effect.acquireRelease(
    Effect.sync(() => declare(path, method)),
    () =>
      Effect.sync(() => {
        addresses.delete(path)
      })
  )

/** `null`: no such address. `OPTIONS` is among them. */
export const methodsAt = (path: string): ReadonlyArray<string> | null => {
  for (const { methods, pattern } of addresses.values()) if (pattern.test(path)) return [...methods, "OPTIONS"]
  return null
}
