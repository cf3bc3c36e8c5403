/** `slipway checkpoints`: the stored states of a sandbox, for restores and for other machines. */
import type { Checkpoint } from "@slipway/client"
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { columns, json, print } from "../terminal/Output.ts"
import * as Server from "./server/Server.ts"

const all = Effect.fnUntraced(function*({ call, client }: Server.Server, id: string) {
  const found: Array<Checkpoint> = []
  for (let after: string | null | undefined; after !== null;) {
    const query = after === undefined ? {} : { after }
    const { data, nextCursor } = yield* call((signal) => client.listCheckpoints(id, query, { signal }))
    found.push(...data)
    after = nextCursor
  }
  return found
})

const list = Command.make("list", {
  id: Server.id,
  json,
  url: Server.url
}, ({ id: given, json, url }) =>
  Server.interruptible(Effect.gen(function*() {
    const server = yield* Server.connect(url)
    const id = yield* Server.sandboxOf(server, given)
    const found = yield* all(server, id)
    yield* print(json, found, () =>
      found.length === 0 ? `No checkpoints of ${id} are kept.` : columns([
        ["NUMBER", "TAKEN", "BYTES", "TURN", "TREES"],
        ...found.map(({ bytes, checkpoint, createdAt, repos, turnId }) => [
          String(checkpoint),
          createdAt,
          String(bytes),
          turnId ?? "none",
          repos.map(({ repo, sha }) => `${repo}@${sha.slice(0, 12)}`).join(" ")
        ])
      ]))
  }))).pipe(
    Command.withDescription(
      "List the stored checkpoints of a sandbox, oldest first: the last ended turn, the stored bytes, " +
        `and the tree of each repository.\n\n${Server.exitCodesText}`
    ),
    Command.withShortDescription("List the stored checkpoints of a sandbox"),
    Command.withExamples([{ command: "slipway checkpoints list c_abcdefgh2345", description: "Those of one sandbox" }])
  )

const restore = Command.make("restore", {
  id: Server.id,
  number: Argument.Int("number").pipe(
    Argument.withDescription("Checkpoint number from: slipway checkpoints list"),
    Argument.filter((number) => number > 0, () => "checkpoints count from 1")
  ),
  json,
  url: Server.url
}, ({ id: given, json, number, url }) =>
  Server.interruptible(Effect.gen(function*() {
    const server = yield* Server.connect(url)
    const id = yield* Server.sandboxOf(server, given)
    const result = yield* Effect.flatMap(
      server.call((signal) => server.client.restoreCheckpoint(id, number, { signal })),
      (result) => Server.applied(result)
    )
    yield* print(json, result, () =>
      result.outcome === "applied"
        ? `Sandbox ${id} goes back to checkpoint ${number}. Its log shows when it is done: slipway logs ${id}`
        : `Sandbox ${id} is going back to checkpoint ${number} already.`)
  }))).pipe(
    Command.withDescription(
      `Restore the files and the conversation of a sandbox to a checkpoint, between turns. Its log continues.\n\n${Server.exitCodesText}`
    ),
    Command.withShortDescription("Take a sandbox back to a checkpoint"),
    Command.withExamples([{ command: "slipway checkpoints restore c_abcdefgh2345 2", description: "Back to its second checkpoint" }])
  )

export const checkpoints = Command.make("checkpoints").pipe(
  Command.withDescription("Checkpoints of sandboxes: list, restore"),
  Command.withSubcommands([list, restore])
)
