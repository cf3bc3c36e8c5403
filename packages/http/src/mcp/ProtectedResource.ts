/**
 * The metadata of the MCP endpoint as a protected resource (RFC 9728). It names no authorization server, because only API keys are
 * accepted: a client that reads it learns to ask its user for a key.
 */
import type { Scope } from "@slipway/domain/access/schema/Principal"
import { Effect } from "effect"
import { HttpRouter } from "effect/http"
import { json } from "../server/reply/Respond.ts"
import { Routes } from "../server/Routes.ts"
import { basePathOf, Settings } from "../server/Settings.ts"

export const MCP_PATH = "/mcp"

const WELL_KNOWN = "/.well-known/oauth-protected-resource"

/** The part of the challenge that names the metadata. */
export const challengeOf = (publicUrl: string): string => `resource_metadata="${publicUrl}${WELL_KNOWN}${MCP_PATH}"`

/** Scopes of a key that its tools use. */
const SCOPES: ReadonlyArray<Scope> = ["sandboxes"]

const metadataOf = (publicUrl: string) => ({
  resource: `${publicUrl}${MCP_PATH}`,
  resource_name: "Slipway",
  bearer_methods_supported: ["header"],
  scopes_supported: SCOPES
})

export const layer = HttpRouter.use(Effect.fnUntraced(function*(router) {
  const { publicUrl } = yield* Settings
  const routes = yield* Routes
  const reply = json(JSON.stringify(metadataOf(publicUrl)), { headers: { "cache-control": "public, max-age=3600" } })
  // RFC 9728 puts the path of the service behind the well-known part; a proxy may forward only what is below that path.
  for (const path of new Set([`${WELL_KNOWN}${MCP_PATH}`, `${WELL_KNOWN}${basePathOf(publicUrl).replace(/\/$/u, "")}${MCP_PATH}`])) {
    routes.declare(path, ["GET", "HEAD"], "mcp")
    yield* router.add("GET", path as `/${string}`, Effect.succeed(reply))
  }
}))
