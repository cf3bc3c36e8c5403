/** The documents packages/api/openapi.json and openapi-internal.json, which the tests of @slipway/api keep equal to the schemas. */
import { readFileSync } from "node:fs"
import path from "node:path"

const read = (name) => JSON.parse(readFileSync(path.join(import.meta.dirname, "../../packages/api", name), "utf8"))

export const schemas = read("openapi.json").components.schemas

/** Each operation of the public interface and of the operator's, with its refusals as `404 not_found`. */
export const operations = ["openapi.json", "openapi-internal.json"].flatMap((name) =>
  Object.values(read(name).paths).flatMap((methods) =>
    Object.values(methods).map(({ operationId, responses }) => ({
      id: operationId,
      refusals: Object.entries(responses)
        .filter(([status]) => Number(status) >= 400)
        .flatMap(([status, { description }]) => Array.from(description.matchAll(/`(\w+)`/gu), ([, code]) => `${status} ${code}`))
    }))
  )
)
