/** What describes itself: the API in `/openapi.json`, and `/docs` for people; files of repositories in `/schemas`. */
import { jsonSchema } from "@slipway/domain/environment/Environment"
import { Effect } from "effect"
import { HttpRouter, HttpServerRequest } from "effect/http"
import { HttpApi, HttpApiScalar, OpenApi } from "effect/http-api"
import { Api } from "../api/Api.ts"
import { NotFound } from "../api/Errors.ts"
import { HEADERS } from "../server/PageHeaders.ts"
import { Routes } from "../server/Routes.ts"
import { basePathOf, Settings } from "../server/Settings.ts"
import * as SharedReply from "../server/SharedReply.ts"

/** The reference page's script is not ours: with a session's cookie or a key typed in, it asks nobody but this server. */
const DOCS_HEADERS = {
  ...HEADERS,
  "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data: blob:; " +
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
}

/** The JSON Schema of `.slipway/environment.json`. */
const ENVIRONMENT = "/schemas/environment.json"

const SCRIPT_TYPE = "text/javascript; charset=utf-8"

/** The script of 3 MB as it comes with the library, which only hands it out within a page. */
const library = Effect.scoped(Effect.gen(function*() {
  const page = yield* HttpRouter.toHttpEffect(HttpApiScalar.layer(HttpApi.make("none"), { path: "/" }))
  const { body } = yield* Effect.provideService(
    page,
    HttpServerRequest.HttpServerRequest,
    HttpServerRequest.fromWeb(new Request("http://slipway.invalid/"))
  )
  const text = body._tag === "Uint8Array" ? new TextDecoder().decode(body.body) : ""
  const [, script] = /<script>([\s\S]*?)<\/script>/u.exec(text) ?? []
  return script ?? (yield* Effect.die("the reference page has no script"))
}))

/** `base`: the path of the service at its host. */
const make = Effect.fnUntraced(function*(base: string) {
  const spec = OpenApi.fromApi(Api)
  const openapi = base === "" ? spec : { ...spec, servers: [{ url: base, description: "This server" }] }
  const start = `window.Scalar.createApiReference(document.getElementById("api-reference-container"), ` +
    `${JSON.stringify({ _integration: "html", url: `${base}/openapi.json`, withDefaultFonts: false })})`
  const script = Buffer.from(`${yield* library}\n;${start}\n`)
  const name = `reference-${SharedReply.hashOf(script)}.js`
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>${spec.info.title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
</head>
<body>
<div id="api-reference-container"></div>
<script src="${base}/docs/${name}"></script>
</body>
</html>
`
  const { IMMUTABLE, REVALIDATED } = SharedReply
  return {
    name,
    openapi: yield* SharedReply.make(Buffer.from(JSON.stringify(openapi)), { contentType: "application/json", cacheControl: REVALIDATED }),
    environment: yield* SharedReply.make(Buffer.from(JSON.stringify(jsonSchema())), {
      contentType: "application/json",
      cacheControl: REVALIDATED
    }),
    page: yield* SharedReply.make(Buffer.from(page), {
      contentType: "text/html; charset=utf-8",
      cacheControl: REVALIDATED,
      headers: DOCS_HEADERS
    }),
    script: yield* SharedReply.make(script, { contentType: SCRIPT_TYPE, cacheControl: IMMUTABLE, headers: DOCS_HEADERS })
  }
})

type Documents = Effect.Success<ReturnType<typeof make>>

/** By base, for all servers of the process. */
const made = new Map<string, Promise<Documents>>()
const documentsOf = (base: string): Effect.Effect<Documents> =>
  Effect.promise(() => {
    const known = made.get(base) ?? Effect.runPromise(make(base))
    made.set(base, known)
    return known
  })

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { publicUrl } = yield* Settings
  const documents = documentsOf(basePathOf(publicUrl))
  // It takes a fifth of a second of the event loop: when the process starts, not when somebody asks.
  yield* Effect.forkScoped(documents)
  const answer = (of: (documents: Documents) => Documents["page"]) => (request: HttpServerRequest.HttpServerRequest) =>
    Effect.map(documents, (all) => of(all)(request))
  const routes = yield* Routes
  for (const path of ["/openapi.json", ENVIRONMENT, "/docs", "/docs/:file"]) routes.declare(path, ["GET", "HEAD"], "docs")
  yield* router.add("GET", "/openapi.json", answer(({ openapi }) => openapi))
  yield* router.add("GET", ENVIRONMENT, answer(({ environment }) => environment))
  yield* router.add("GET", "/docs", answer(({ page }) => page))
  yield* router.add(
    "GET",
    "/docs/:file",
    Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { name, script } = yield* documents
      if ((yield* HttpRouter.params)["file"] === name) return script(request)
      return yield* NotFound.make("There is nothing at this address.")
    })
  )
}))
