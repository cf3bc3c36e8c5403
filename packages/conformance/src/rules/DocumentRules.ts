/** Documents and probes that need no key. */
import { answered, errorBody, refused } from "../client/Client.ts"
import { holds, type Json, same } from "../client/Expect.ts"
import { API, type World } from "../world/World.ts"
import { rulesOf } from "./Rule.ts"

const rule = rulesOf("documents", "docs/decisions/8")

const openapi = async (world: World) =>
  answered(await world.http.ask("/openapi.json", { key: null }), 200, "/openapi.json without a key").json

const operations: ReadonlyArray<readonly [path: string, methods: ReadonlyArray<string>]> = [
  ["/sandboxes", ["get", "post"]],
  ["/sandboxes/{}", ["get"]],
  ["/sandboxes/{}/terminate", ["post"]],
  ["/sandboxes/{}/interrupt", ["post"]],
  ["/sandboxes/{}/restore", ["post"]],
  ["/sandboxes/{}/fork", ["post"]],
  ["/sandboxes/{}/approvals/{}", ["post"]],
  ["/sandboxes/{}/messages", ["get", "post"]],
  ["/sandboxes/{}/checkpoints", ["get"]],
  ["/sandboxes/{}/setup", ["get"]],
  ["/sandboxes/{}/pull-request", ["get", "post"]],
  ["/sandboxes/{}/events", ["get"]],
  ["/sandboxes/{}/events/stream", ["get"]],
  ["/sandboxes/{}/files/tree", ["get"]],
  ["/sandboxes/{}/files/download", ["get"]],
  ["/sandboxes/{}/files/content", ["get"]],
  ["/sandboxes/{}/files/diff", ["get"]],
  ["/events", ["get"]]
]

/** Every `$ref` below a value. */
const refsIn = (value: unknown): ReadonlyArray<string> =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([key, member]) => key === "$ref" && typeof member === "string" ? [member] : refsIn(member))

const resolve = (document: Json, ref: string) => ref.slice(2).split("/").reduce((json, key) => json.at(key), document)

/** The rules of this file. */
export const rules = [
  rule("openapi", "/openapi.json is OpenAPI 3.1, without authentication.", async (world) => {
    const version = (await openapi(world)).at("openapi").value
    holds(typeof version === "string" && version.startsWith("3.1."), "openapi 3.1", version)
  }),
  rule("operations", "It has every operation of the interface.", async (world) => {
    const paths = (await openapi(world)).at("paths")
    const known = new Map(paths.keys.map((path) => [path.replaceAll(/\{\w+\}/gu, "{}"), paths.at(path).keys]))
    for (const [path, methods] of operations) {
      for (const method of methods) {
        holds(
          known.get(`${API}${path}`)?.includes(method) === true,
          `${method} ${API}${path}`,
          known.get(`${API}${path}`)
        )
      }
    }
  }),
  rule("references", "Each reference within it leads somewhere.", async (world) => {
    const document = await openapi(world)
    for (const ref of new Set(refsIn(document.value))) {
      holds(ref.startsWith("#/") && resolve(document, ref).value !== undefined, `${ref} to be there`, undefined)
    }
  }),
  rule("strict", "It says that bodies are strict.", async (world) => {
    const document = await openapi(world)
    const body = document.at("paths").at(`${API}/sandboxes`).at("post").at("requestBody").at("content").at(
      "application/json"
    ).at("schema")
    const schema = typeof body.at("$ref").value === "string" ? resolve(document, body.at("$ref").string) : body
    same(schema.at("additionalProperties").value, false, "additionalProperties of a creation")
    same(
      [...schema.at("required").items.map((item) => item.string)].sort(),
      ["prompt", "repos"],
      "required properties of a creation"
    )
  }),
  rule("environment", "/schemas/environment.json is a strict JSON Schema of environment files, without authentication.", async (world) => {
    const schema = answered(await world.http.ask("/schemas/environment.json", { key: null }), 200, "/schemas/environment.json").json
    same(schema.at("$schema").value, "https://json-schema.org/draft/2020-12/schema", "$schema")
    const file = typeof schema.at("$ref").value === "string" ? resolve(schema, schema.at("$ref").string) : schema
    same(file.at("additionalProperties").value, false, "additionalProperties of an environment file")
    same(
      file.at("properties").keys.toSorted(),
      ["$schema", "cache", "cacheKey", "egress", "env", "onFailure", "ports", "secrets", "setup", "timeoutMinutes"],
      "keys of an environment file"
    )
  }),
  rule("health", "/healthz is 200 {\"status\":\"ok\"} without authentication.", async (world) => {
    same(
      answered(await world.http.ask("/healthz", { key: null }), 200, "/healthz").json.value,
      { status: "ok" },
      "body"
    )
  }),
  rule("ready", "/readyz is 200, or 503 with an error body, without authentication.", async (world) => {
    const reply = await world.http.ask("/readyz", { key: null })
    if (reply.status === 503) errorBody(refused(reply, 503, "unavailable", "/readyz"), "/readyz")
    else answered(reply, 200, "/readyz")
  })
]
