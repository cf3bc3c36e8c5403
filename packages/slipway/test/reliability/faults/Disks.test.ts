/** The disk of a worker's machine, with its mirrors, trees and caches: full, read-only, out of inodes. */
import * as SmallDisk from "@slipway/machine/testing/SmallDisk"
import { Effect } from "effect"
import { setTimeout as sleep } from "node:timers/promises"
import { fault, type Found, type Need } from "./Battery.ts"
import * as Checks from "./Checks.ts"
import * as Sandboxes from "./Sandboxes.ts"
import * as Service from "./Service.ts"

const disks: Need = () => SmallDisk.isPossible ? null : "no disk can be mounted here"
const SPOILT_MILLIS = 6_000

for (const trouble of SmallDisk.TROUBLES) {
  fault(
    `the disk of a worker is ${trouble}`,
    [disks],
    Effect.gen(function*() {
      const disk = yield* SmallDisk.make(64, 5_000)
      const service = yield* Service.make({ name: `disk-${trouble.replaceAll(" ", "-")}`, ofWorkers: { SLIPWAY_DATA_DIR: disk.path } })
      return yield* Effect.promise(async (): Promise<Found> => {
        const sandboxes = Sandboxes.make(service.urls[0] ?? "", service.key)
        const before = await sandboxes.create("[[write path=kept.txt content=kept]]")
        await sandboxes.turns(before, 1)
        await sandboxes.event(before, "sandbox.checkpoint")
        const load = service.load({ name: "disk", perSecond: 10, terminate: true })
        disk.spoil(trouble)
        const during = await sandboxes.create("[[say made meanwhile]]")
        const turn = await sandboxes.send(before, "[[say told meanwhile]]")
        await sleep(SPOILT_MILLIS)
        disk.mend()
        const backMillis = [await Checks.back(service.urls)]
        await load.stop()
        const lost: Array<string> = []
        const ends = await sandboxes.turns(before, 2)
        if (ends.filter(({ turnId }) => turnId === turn).length !== 1) lost.push(`the turn sent meanwhile ended as ${JSON.stringify(ends)}`)
        const after = await sandboxes.create("[[write path=new.txt content=new]]")
        const [next] = await sandboxes.turns(after, 1)
        if (next?.state !== "succeeded") lost.push(`a sandbox made afterwards ended its turn as ${next?.state}`)
        const kept = await sandboxes.file(before, "kept.txt")
        if (kept !== "kept\n") lost.push(`a file of before is ${JSON.stringify(kept)}`)
        // It may have failed, if it says so.
        const log = await sandboxes.log(during)
        const said = log.find(({ type }) => type === "sandbox.error")?.data["code"]
        const ended = log.some(({ type }) => type === "turn.completed")
        if (said !== "boot_failed" && !ended) lost.push(`a sandbox made meanwhile neither worked nor failed: ${JSON.stringify(log.at(-1))}`)
        for (const id of [before, during, after]) lost.push(...await sandboxes.gaps(id))
        const what = said === undefined ? "worked in the end" : `failed as ${String(said)}`
        return {
          done: `for ${SPOILT_MILLIS / 1000} s; a sandbox made meanwhile ${what}; ${Service.summary(load)}`,
          lost: [...lost, ...await service.verdict(load)],
          backMillis
        }
      })
    })
  )
}
