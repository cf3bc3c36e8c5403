/**
 * Gets the script of `/docs` out of the library, which hands it out only within a page: 3 MB to compile, escape and search, a
 * fifth of a second. On a thread of its own, so that no request waits and its memory is freed; it posts the script's bytes and ends.
 */
import * as Effect from "effect/Effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApi, HttpApiScalar } from "effect/http-api"
import { parentPort } from "node:worker_threads"

const script = Effect.scoped(Effect.gen(function*() {
  const page = yield* HttpRouter.toHttpEffect(HttpApiScalar.layer(HttpApi.make("none"), { path: "/" }))
  const { body } = yield* Effect.provideService(
    page,
    HttpServerRequest.HttpServerRequest,
    HttpServerRequest.fromWeb(new Request("http://slipway.invalid/"))
  )
  const text = body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : ""
  const [, found] = /<script>([\s\S]*?)<\/script>/u.exec(text) ?? []
  if (found === undefined) return yield* Effect.die("the reference page has no script")
  // A library in it tries whether it may make functions of text, which the page's policy forbids and the browser reports.
  return new TextEncoder().encode(found.replace("return new Function(\"\"),!0", "return!1"))
}))

const bytes = await Effect.runPromise(script)
parentPort?.postMessage(bytes, [bytes.buffer])
