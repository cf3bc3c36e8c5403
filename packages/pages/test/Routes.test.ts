/** The facts of every address: stated here again, beside the definition that they are read from. */
import { assert, layer } from "@effect/vitest"
import { Api } from "@slipway/api/Api"
import { InternalApi } from "@slipway/api/InternalApi"
import { Authenticated } from "@slipway/api/shared/Middleware"
import { AREAS } from "@slipway/api/shared/Routing"
import { IdentityProviders } from "@slipway/domain/access/ports/IdentityProvider"
import type { ProviderId } from "@slipway/domain/access/rules/Identity"
import { PullRequests } from "@slipway/domain/source/ports/PullRequests"
import { SourceHostEvents } from "@slipway/domain/source/ports/SourceHostEvents"
import { Routes } from "@slipway/http/server/Routes"
import { Effect, Layer } from "effect"
import { HttpApi } from "effect/http-api"
import { addressOf } from "../src/assets/Assets.ts"
import { MachineRepositories } from "../src/repositories/MachineRepositories.ts"
import { NO_PAGES, PAGES } from "../testing/Addresses.ts"
import { ask, json, layer as http, refused, SANDBOXES } from "../testing/Harness.ts"

interface Endpoint {
  readonly path: string
  readonly method: string
  readonly guarded: boolean
}

const endpoints: Array<Endpoint> = []
const reflecting = {
  onGroup: () => {},
  onEndpoint: ({ endpoint, middleware }: {
    readonly endpoint: { readonly path: string; readonly method: string }
    readonly middleware: ReadonlySet<unknown>
  }) => endpoints.push({ path: endpoint.path.replaceAll(/:\w+/gu, "x"), method: endpoint.method, guarded: middleware.has(Authenticated) })
}
HttpApi.reflect(Api, reflecting)
HttpApi.reflect(InternalApi, reflecting)

const noPulls = PullRequests.of({
  diff: () => Effect.never,
  content: () => Effect.never,
  review: () => Effect.never,
  merge: () => Effect.never,
  close: () => Effect.never
})
const offered = (id: ProviderId) => ({
  id,
  name: id,
  begin: () => Effect.never,
  identify: () => Effect.never,
  signOutUrl: () => Effect.never
})
const whole = http({ news: Layer.mock(SourceHostEvents, {}), pulls: noPulls }).pipe(
  Layer.provide([Layer.mock(MachineRepositories, {}), Layer.succeed(IdentityProviders, [offered("github"), offered("oidc")])])
)

layer(whole, { excludeTestServices: true })("an address", (it) => {
  it.effect("of a page is in the list from which the browser test visits all pages", () =>
    Effect.gen(function*() {
      const known = [...PAGES, ...NO_PAGES]
      const shown = (yield* Routes).all().filter(({ area, methods, pattern }) =>
        methods.includes("GET") && (pattern === "/docs" || area === "pages") && !pattern.startsWith("/assets/")
      )
      for (const { pattern } of shown) {
        assert.include(
          known,
          pattern,
          `${pattern} is a new address. Add it to PAGES of packages/pages/testing/Addresses.ts, and how to get there to the table of ` +
            "packages/slipway/test/browser/Addresses.test.ts; or to NO_PAGES if it answers no page."
        )
      }
      assert.sameMembers(shown.map(({ pattern }) => pattern), known)
    }))

  it.effect("is of a part of the service, whether endpoint, page or file; every part has one", () =>
    Effect.gen(function*() {
      const routes = yield* Routes
      const areaOf = (path: string) => routes.at(path)?.area
      assert.deepStrictEqual(
        [
          "/",
          "/keys",
          "/keys/x/revoke",
          "/sandboxes/x/changes",
          addressOf("style.css"),
          "/docs",
          "/docs/x",
          "/openapi.json",
          "/openapi-internal.json",
          "/schemas/environment.json",
          "/hooks/source-host",
          "/oauth/token",
          "/device",
          "/healthz",
          "/metrics",
          SANDBOXES,
          `${SANDBOXES}/x/interrupt`,
          `${SANDBOXES}/x/approvals/x`,
          `${SANDBOXES}/x/events`,
          `${SANDBOXES}/x/events/stream`,
          `${SANDBOXES}/x/files/tree`,
          `${SANDBOXES}/x/pull-request`,
          `${SANDBOXES}/x/messages`,
          `${SANDBOXES}/x/checkpoints`,
          "/api/public/v1/events",
          "/api/internal/v1/claims/x",
          "/api/internal/v1/webhook-endpoints"
        ].map(areaOf),
        ["pages", "pages", "pages", "pages", "pages", "docs", "docs", "docs", "docs", "docs", "hooks", "device_logins", "pages", "health",
          "metrics", "sandboxes", "sandboxes", "approvals", "events", "stream", "files", "pull_requests", "messages", "checkpoints", "feed",
          "internal", "internal"]
      )
      const used = new Set(endpoints.map(({ path }) => areaOf(path)))
      assert.notInclude([...used], "other")
      assert.sameMembers([...used, "docs", "hooks", "device_logins", "mcp", "pages", "other"], [...AREAS])
    }))

  it.effect("is nothing else, whatever is asked for", () =>
    Effect.gen(function*() {
      const routes = yield* Routes
      for (
        const path of ["", "*", "/constructor", "/__proto__", `${SANDBOXES}/x/constructor`, `${SANDBOXES}/`, `${SANDBOXES}//events`,
          "//metrics", "/Metrics", "/api", "/api/public/v1/sandboxes/:sandboxId/nothing"]
      ) assert.isNull(routes.at(path), path)
    }))

  it.effect("needs a scope where its endpoint asks for a key, and only there", () =>
    Effect.gen(function*() {
      const routes = yield* Routes
      assert.isAbove(endpoints.length, 25)
      for (const { guarded, path } of endpoints) assert.strictEqual(routes.scopeAt(path) !== null, guarded, path)
      for (const path of ["/", "/keys", "/docs", "/nothing", "/metrics/x", "/apis"]) assert.isNull(routes.scopeAt(path), path)
    }))

  it.effect("that does not exist needs the scope of those near it", () =>
    Effect.gen(function*() {
      const routes = yield* Routes
      const scopes = {
        "/api/": "sandboxes",
        "/api/nothing": "sandboxes",
        "/api/public/v1/nothing": "sandboxes",
        [`${SANDBOXES}/x/nothing`]: "sandboxes",
        "/api/internal/v1/nothing": "partner:ingest",
        "/api/internal/v1/claims/x/y/z": "partner:ingest",
        "/api/internal/v1/webhook-endpoints/x/y/z": "webhooks",
        "/api/internal/v1/trusted-refs/x": "secrets",
        "/api/internal/v1/models/x": "models",
        "/api/internal/v1/audit/x": "audit:read",
        "/api/internal/v1/automations/x/nothing": "automations",
        "/api/internal/v1/webhook-endpointsx": "partner:ingest"
      }
      for (const [path, scope] of Object.entries(scopes)) assert.strictEqual(routes.scopeAt(path), scope, path)
    }))

  it.effect("says which methods it answers to; an event stream has no HEAD", () =>
    Effect.gen(function*() {
      const routes = yield* Routes
      const methods = (path: string) => routes.at(path)?.methods.join(" ")
      assert.strictEqual(methods(SANDBOXES), "POST GET HEAD OPTIONS")
      assert.strictEqual(methods(`${SANDBOXES}/x/events`), "GET HEAD OPTIONS")
      assert.strictEqual(methods(`${SANDBOXES}/x/events/stream`), "GET OPTIONS")
      assert.strictEqual(methods("/hooks/source-host"), "POST OPTIONS")
      assert.strictEqual(methods("/keys"), "GET HEAD POST OPTIONS")
      const reply = yield* ask(addressOf("style.css"), { method: "DELETE" })
      refused(reply, 405, "method_not_allowed")
      assert.strictEqual(reply.headers.allow, "GET, HEAD, OPTIONS")
      assert.strictEqual(json(yield* ask("/", { headers: { accept: "application/json" } })).error.code, "not_found")
    }))
})

layer(http(), { excludeTestServices: true })("an address that another server of the process has", (it) => {
  it.effect("does not exist here", () =>
    Effect.gen(function*() {
      assert.isNull((yield* Routes).at("/hooks/source-host"))
    }))
})
