/**
 * Descriptions that the service serves: of the public API at `/openapi.json` and, for people, `/docs`; of the API for operators'
 * programs at `/openapi-internal.json`; of files in repositories at `/schemas`.
 */
import * as DocumentFiles from "@slipway/api/openapi/DocumentFiles"
import { NotFound } from "@slipway/api/shared/Errors"
import { jsonSchema } from "@slipway/domain/environment/rules/Environment"
import { Effect } from "effect"
import { HttpRouter, type HttpServerRequest } from "effect/http"
import type { OpenApi } from "effect/http-api"
import { readFile } from "node:fs/promises"
import { Worker } from "node:worker_threads"
import { HEADERS } from "../server/reply/PageHeaders.ts"
import * as SharedReply from "../server/reply/SharedReply.ts"
import { Routes } from "../server/Routes.ts"
import { basePathOf, Settings } from "../server/Settings.ts"

/** The script of the reference page is not ours. It may send requests to this server alone, since it sees a session or a key. */
const DOCS_HEADERS = {
  ...HEADERS,
  "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'unsafe-inline'; img-src 'self' data: blob:; " +
    "connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
}

/** The JSON Schema of `.slipway/environment.json`. */
const ENVIRONMENT = "/schemas/environment.json"

const SCRIPT_TYPE = "text/javascript; charset=utf-8"

const INTERNAL = "/openapi-internal.json"

const read = (file: URL) => Effect.promise(async (): Promise<OpenApi.OpenAPISpec> => JSON.parse(await readFile(file, "utf8")))
const document = read(DocumentFiles.publicDocument)
const internalDocument = read(DocumentFiles.internalDocument)

const thread = new URL(import.meta.url.endsWith(".ts") ? "./ReferenceThread.main.ts" : "./ReferenceThread.main.js", import.meta.url)

/** The script of 3 MB as it comes with the library. */
const library = Effect.callback<Uint8Array>((resume) => {
  new Worker(thread, { env: {}, execArgv: [] })
    .once("message", (bytes: Uint8Array) => resume(Effect.succeed(bytes)))
    .once("error", (error) => resume(Effect.die(error)))
})

const { IMMUTABLE, REVALIDATED } = SharedReply
const JSON_REPLY = { contentType: "application/json", cacheControl: REVALIDATED } as const

/** `base`: the path of the service at its host. */
const describe = Effect.fnUntraced(function*(base: string) {
  const at = (spec: OpenApi.OpenAPISpec) =>
    JSON.stringify(base === "" ? spec : { ...spec, servers: [{ url: base, description: "This server" }] })
  return {
    openapi: yield* SharedReply.make(Buffer.from(at(yield* document)), JSON_REPLY),
    internal: yield* SharedReply.make(Buffer.from(at(yield* internalDocument)), JSON_REPLY),
    environment: yield* SharedReply.make(Buffer.from(JSON.stringify(jsonSchema())), JSON_REPLY)
  }
})

/** Colours that contrast with the library's grounds as WCAG 2.2 AA asks. Texts that it hides would widen a narrow page. */
const CSS = `.light-mode{--scalar-color-2:#5b646f!important;--scalar-color-3:#5b646f!important;--scalar-color-green:#1a6f43!important;
--scalar-color-blue:#1f5fd0!important;--scalar-color-red:#b3261e!important;--scalar-color-orange:#8a5300!important;
--scalar-color-purple:#5a2ca0!important}
.dark-mode{--scalar-color-3:#9ba5b1!important;--scalar-color-red:#ff9a92!important}
#api-reference-container{overflow-x:clip}`

/** Without the parts of the library that are not accessible, and its bar of its makers' tools, which it shows at a local address. */
const settingsOf = (base: string) => ({
  _integration: "html",
  url: `${base}/openapi.json`,
  withDefaultFonts: false,
  showDeveloperTools: "never",
  hideClientButton: true,
  hideSearch: true,
  hiddenClients: true,
  hideTestRequestButton: true,
  customCss: CSS
})

/** Mends attributes of the library's elements, whenever it makes some: a selector, an attribute, and its value or `null` for none. */
const MENDS = `const mends = [
  ["aside[role=navigation]", "role", null],
  ["aside[aria-label^=Sidebar]", "aria-label", "Operations"],
  ["button[aria-selected]", "aria-selected", null],
  ["button.show-more[aria-label]", "aria-label", null],
  ["ul.endpoints:not([tabindex])", "tabindex", "0"],
  [".scalar-card[role=region]", "role", null],
  [".scalar-card[aria-label]", "aria-label", null],
  [".scalar-card[aria-labelledby]", "aria-labelledby", null]
]
const mend = () => {
  for (const [selector, name, value] of mends) {
    for (const one of document.querySelectorAll(selector)) value === null ? one.removeAttribute(name) : one.setAttribute(name, value)
  }
}
new MutationObserver(mend).observe(document.body, { childList: true, subtree: true, attributes: true, attributeFilter: ["aria-selected"] })`

const makeReference = Effect.fnUntraced(function*(base: string) {
  const { info } = yield* document
  const start = `window.Scalar.createApiReference(document.getElementById("api-reference-container"), ` +
    `${JSON.stringify(settingsOf(base))})\n${MENDS}`
  const script = Buffer.concat([yield* library, Buffer.from(`\n;${start}\n`)])
  const name = `reference-${SharedReply.hashOf(script)}.js`
  const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>API reference · ${info.title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
</head>
<body>
<nav aria-label="${info.title}"><p><a href="${base}/">${info.title}</a></p></nav>
<noscript><main><h1>API reference</h1><p>This needs JavaScript. The API is described in <a href="${base}/openapi.json">openapi.json</a>.</p>
</main></noscript>
<div id="api-reference-container"></div>
<script src="${base}/docs/${name}"></script>
</body>
</html>
`
  return {
    name,
    page: yield* SharedReply.make(Buffer.from(page), {
      contentType: "text/html; charset=utf-8",
      cacheControl: REVALIDATED,
      headers: DOCS_HEADERS
    }),
    script: yield* SharedReply.make(script, { contentType: SCRIPT_TYPE, cacheControl: IMMUTABLE, headers: DOCS_HEADERS })
  }
})

/**
 * By base, for all servers of the process. Made when somebody first asks: most processes are never asked.
 */
const once = <A>(make: (base: string) => Effect.Effect<A>) => {
  const made = new Map<string, Promise<A>>()
  return (base: string): Effect.Effect<A> =>
    Effect.promise(() => {
      const known = made.get(base) ?? Effect.runPromise(make(base))
      made.set(base, known)
      return known
    })
}
const descriptionsOf = once(describe)
const referenceOf = once(makeReference)

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { publicUrl } = yield* Settings
  const base = basePathOf(publicUrl)
  const descriptions = descriptionsOf(base)
  const reference = referenceOf(base)
  const routes = yield* Routes
  for (const path of ["/openapi.json", INTERNAL, ENVIRONMENT, "/docs", "/docs/:file"]) routes.declare(path, ["GET", "HEAD"], "docs")
  yield* router.add("GET", "/openapi.json", (request) => Effect.map(descriptions, ({ openapi }) => openapi(request)))
  yield* router.add("GET", INTERNAL, (request) => Effect.map(descriptions, ({ internal }) => internal(request)))
  yield* router.add("GET", ENVIRONMENT, (request) => Effect.map(descriptions, ({ environment }) => environment(request)))
  yield* router.add("GET", "/docs", (request) => Effect.map(reference, ({ page }) => page(request)))
  yield* router.add(
    "GET",
    "/docs/:file",
    Effect.fnUntraced(function*(request: HttpServerRequest.HttpServerRequest) {
      const { name, script } = yield* reference
      if ((yield* HttpRouter.params)["file"] === name) return script(request)
      return yield* NotFound.make("There is nothing at this address.")
    })
  )
}))
