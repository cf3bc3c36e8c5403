/** Other projects' code generators make TypeScript of the public document that compiles strictly and tells events apart by `type`. */
import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { execFile } from "node:child_process"
import { mkdtemp, rm, writeFile } from "node:fs/promises"
import path from "node:path"
import { promisify } from "node:util"

const run = promisify(execFile)
const document = path.join(import.meta.dirname, "../openapi.json")
const program = (specifier: string, below: string) => path.join(path.dirname(import.meta.resolve(specifier).slice("file://".length)), below)

const generators = {
  "oazapfts": (target: string) => [program("oazapfts", "cli.js"), document, target],
  "swagger-typescript-api": (target: string) => [
    program("swagger-typescript-api", "cli.mjs"),
    "generate",
    "--path",
    document,
    "--output",
    path.dirname(target),
    "--name",
    path.basename(target),
    "--silent"
  ]
}

/** A reader of events, as somebody would write it; it does not compile where types are looser or stricter than they are. */
const reader = (name: string) => `
import type { CreateSandbox, SandboxEventEnvelope } from "./${name}.ts"

export const read = (event: SandboxEventEnvelope): string => {
  // @ts-expect-error -- only some events have a text
  event.data.text
  switch (event.type) {
    case "turn.completed": {
      const state: "succeeded" | "failed" | "interrupted" | "cancelled" = event.data.state
      return state
    }
    case "message.updated":
      return event.data.text
    case "snapshot":
      return event.data.sandbox.links.self + event.data.pending_approvals.map(({ approval_id }) => approval_id).join()
    case "approval.requested": {
      // @ts-expect-error -- it is no pull request
      event.data.number
      return event.data.approval_id
    }
    default:
      return event.type
  }
}

export const least: CreateSandbox = { repos: [{ fullName: "acme/shop" }], prompt: "Fix it." }
// @ts-expect-error -- a prompt is needed
export const less: CreateSandbox = { repos: [] }
`

const options = {
  strict: true,
  noUncheckedIndexedAccess: true,
  verbatimModuleSyntax: true,
  allowImportingTsExtensions: true,
  noEmit: true,
  target: "es2024",
  lib: ["es2024", "dom", "dom.iterable"],
  module: "esnext",
  moduleResolution: "bundler",
  types: []
}

describe("the OpenAPI document in the hands of a code generator", () => {
  for (const [name, command] of Object.entries(generators)) {
    it.live(`makes strict TypeScript with events that are told apart by their type: ${name}`, () =>
      Effect.promise(async () => {
        // Below this folder, where what the generated code imports is found.
        const folder = await mkdtemp(path.join(import.meta.dirname, "generated-"))
        try {
          await run(process.execPath, command(path.join(folder, `${name}.ts`)))
          await writeFile(path.join(folder, "reader.ts"), reader(name))
          await writeFile(path.join(folder, "tsconfig.json"), JSON.stringify({ compilerOptions: options, include: ["*.ts"] }))
          const { stdout } = await run("tsc", ["-p", folder]).catch((error: { readonly stdout: string }) => error)
          assert.strictEqual(stdout, "")
        } finally {
          await rm(folder, { recursive: true, force: true })
        }
      }))
  }
})
