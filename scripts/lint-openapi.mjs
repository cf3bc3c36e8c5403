/**
 * Rules over the committed OpenAPI document: `node scripts/lint-openapi.mjs`. Redocly's and Spectral's, which are fetched when asked for,
 * and one of ours: each property says what it means.
 */
import { spawnSync } from "node:child_process"
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import path from "node:path"

const document = path.join(import.meta.dirname, "../packages/api/openapi.json")
const folder = mkdtempSync(path.join(tmpdir(), "slipway-lint-openapi-"))
const ruleset = path.join(folder, "spectral.json")
writeFileSync(ruleset, JSON.stringify({ extends: "spectral:oas" }))

/** Where a property below the value has no description. */
const undescribed = (value, at = "") =>
  typeof value !== "object" || value === null
    ? []
    : Object.entries(value).flatMap(([key, member]) => [
      ...(key === "properties"
        ? Object.keys(member).filter((name) => !member[name].description).map((name) => `${at}/${key}/${name}`)
        : []),
      ...(key === "examples" ? [] : undescribed(member, `${at}/${key}`))
    ])

for (const property of undescribed(JSON.parse(readFileSync(document, "utf8")))) {
  process.stderr.write(`#${property} has no description\n`)
  process.exitCode = 1
}

try {
  for (
    const [name, ...args] of [
      ["@redocly/cli@2.77.0", "lint", document],
      ["@stoplight/spectral-cli@6.16.3", "lint", "--ruleset", ruleset, document]
    ]
  ) {
    process.stdout.write(`${name}\n`)
    const env = { ...process.env, REDOCLY_TELEMETRY: "off", REDOCLY_SUPPRESS_UPDATE_NOTICE: "true" }
    const { status } = spawnSync("npx", ["--yes", name, ...args], { cwd: folder, env, stdio: "inherit" })
    if (status !== 0) process.exitCode = 1
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
