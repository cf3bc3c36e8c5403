/** Tools that create, find and end sandboxes. */
import type { NewSandbox, SandboxQuery } from "@slipway/client"
import { SandboxStatus } from "@slipway/domain/sandbox/schema/SandboxEvent"
import { CreateSandbox } from "@slipway/domain/sandbox/usecases/CreateSandbox"
import { characters } from "@slipway/domain/text/Text"
import { Schema } from "effect"
import { createHash } from "node:crypto"
import { idempotencyKey, note, Outcome, repo, sandboxId, SandboxState, SandboxSummary, stateOf, summaryOf } from "./Shapes.ts"
import { changes, reads, tool, UNTRUSTED } from "./Tool.ts"

/** The same for objects whose keys have another order. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, one: unknown) =>
    typeof one === "object" && one !== null && !Array.isArray(one)
      ? Object.fromEntries(Object.entries(one).toSorted(([a], [b]) => a < b ? -1 : 1))
      : one)

/** Equal creations have the same key, so that a repeated call does not create a second sandbox. */
export const derivedKey = (request: unknown): string => `mcp-${createHash("sha256").update(canonical(request)).digest("hex")}`

const { files: _, ...creation } = CreateSandbox.fields

export const createSandbox = tool({
  name: "create_sandbox",
  title: "Create a sandbox",
  description: "Starts a coding agent on one or more repositories with a prompt. It runs on its own and costs model usage until its turn " +
    "ends: budgetMicroUsd limits that. Nothing is published. An equal call within 24 hours returns the same sandbox instead of a second " +
    "one; give an idempotencyKey of your own to create another. Next: wait_for_sandbox.",
  ...changes,
  openWorldHint: true,
  input: Schema.Struct({
    ...creation,
    idempotencyKey: idempotencyKey("Equal calls with the same key create one sandbox. Default: derived from the other fields.")
  }),
  output: SandboxSummary,
  run: async ({ idempotencyKey, ...request }, { client, signal }) =>
    summaryOf(
      await client.createSandbox(request as NewSandbox, {
        idempotencyKey: idempotencyKey ?? derivedKey(request),
        signal
      })
    )
})

const MOST_LISTED = 50

export const listSandboxes = tool({
  name: "list_sandboxes",
  title: "List sandboxes",
  description: "Lists the sandboxes of the key's grant, newest first. Changes nothing and costs nothing.",
  ...reads,
  input: Schema.Struct({
    status: Schema.optionalKey(SandboxStatus).annotateKey({ description: "Only sandboxes with this status." }),
    repo: repo.annotateKey({ description: "Only sandboxes with this repository, as owner/name." }),
    limit: Schema.optionalKey(Schema.Int.check(Schema.isBetween({ minimum: 1, maximum: MOST_LISTED }))).annotateKey({
      description: `1 to ${MOST_LISTED}; default 20.`
    }),
    after: Schema.optionalKey(characters(1, 1000)).annotateKey({ description: "The nextCursor of the page before." })
  }),
  output: Schema.Struct({
    note,
    sandboxes: Schema.Array(SandboxSummary),
    nextCursor: Schema.NullOr(Schema.String).annotateKey({ description: "The after of the next page; null: this is the last page." })
  }),
  run: async ({ limit = 20, ...query }, { client, signal }) => {
    const { data, nextCursor } = await client.listSandboxes({ ...query, limit } as SandboxQuery, { signal })
    return { note: UNTRUSTED, sandboxes: data.map(summaryOf), nextCursor }
  }
})

export const getSandbox = tool({
  name: "get_sandbox",
  title: "Get a sandbox",
  description: "Shows a sandbox as it is now: its status, its newest turn, its costs, and what waits for a decision or an answer. " +
    "Changes nothing and costs nothing. To wait for a change use wait_for_sandbox.",
  ...reads,
  input: Schema.Struct({ sandboxId }),
  output: SandboxState,
  run: async ({ sandboxId }, { client, signal }) => stateOf(await client.snapshot(sandboxId, { signal }))
})

export const terminateSandbox = tool({
  name: "terminate_sandbox",
  title: "Terminate a sandbox",
  description: "Ends a sandbox for good and frees its machine. Changes that were not published are lost. Its log stays readable. " +
    "Terminating it again has no effect.",
  ...changes,
  destructiveHint: true,
  input: Schema.Struct({ sandboxId }),
  output: Outcome,
  run: ({ sandboxId }, { client, signal }) => client.terminateSandbox(sandboxId, { signal })
})
