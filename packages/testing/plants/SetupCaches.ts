import { type Plants, plantsIn } from "./Plant.ts"

const name = "JSON.stringify([grantId, repo.toLowerCase(), key])"
const room = "removeUnread(() => total() + bytes <= maximumBytes)"

export const plants: Plants = {
  port: "SetupCaches",
  subject: "packages/testing/test/environment/SetupCaches.suites.ts",
  plants: [
    ...plantsIn("packages/domain/memory/environment/SetupCachesMemory.ts", [
      ["removes the cache that was filled first, even if it was used since", "all.delete(name)\n            all.set(name, found)", ""],
      ["removes first what was used last", "Effect.forEach(Array.from(all),", "Effect.forEach(Array.from(all).toReversed(),"],
      ["removes what somebody reads", "readers > 0 || until()", "until()"],
      ["keeps what was read once for ever", "() => Effect.sync(() => found.readers--)", "() => Effect.void"],
      ["makes no room", "removeUnread(() => false)", "removeUnread(() => true)"],
      ["removes all for the next one", room, "removeUnread(() => false)"],
      ["removes nothing for the next one", room, "Effect.void"],
      ["keeps more than it may", "if (total() + bytes > maximumBytes)", "if (false)"],
      ["gives the first piece alone", "Stream.fromIterable(found.chunks)", "Stream.fromIterable(found.chunks.slice(0, 1))"]
    ]),
    ...plantsIn("packages/domain/src/environment/usecases/CacheFilling.ts", [
      ["gives what another grant filled", name, "JSON.stringify([repo.toLowerCase(), key])"],
      ["gives what another key names", name, "JSON.stringify([grantId, repo.toLowerCase()])"],
      ["takes a repository in another case for another one", name, "JSON.stringify([grantId, repo, key])"],
      ["takes places for one whose names are one text", name, "`${grantId}/${repo.toLowerCase()}/${key}`"],
      ["refuses one of just the size that is allowed", "next > largest", "next >= largest"],
      ["takes one of any size", "next > largest", "false"],
      ["has all fill it who come at once", "line === undefined ? \"filling\" : \"waiting\"", "line === undefined ? \"filling\" : \"free\""],
      ["has all fill it when the first one is interrupted", "else if (ticket.state === \"filling\") tell(next, \"filling\")",
        "else if (ticket.state === \"filling\") dismiss(ticket.place, \"free\")"],
      ["has those who waited fill it again", "if (Exit.isSuccess(exit)) dismiss(ticket.place, \"look\")",
        "if (Exit.isSuccess(exit)) dismiss(ticket.place, \"free\")"],
      ["has one after the other fail", "dismiss(ticket.place, \"free\")\n            })", "leave(ticket)\n            })"],
      ["has somebody wait for longer than they may", "leave(ticket))), patience)", "leave(ticket))), \"1 hour\")"],
      ["has those who want another cache wait", "const ticket = yield* take(name)", "const ticket = yield* take(\"all\")"]
    ])
  ]
}
