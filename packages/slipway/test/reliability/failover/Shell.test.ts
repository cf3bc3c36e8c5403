/** `slipway shell` into boxes of other isolations than `none`, on a worker that dies: bubblewrap, and machines with a runner. */
import { it } from "@effect/vitest"
import * as Bubblewrap from "@slipway/machine/testing/hosts/bubblewrap.fixture"
import { Effect } from "effect"
import { noScript, story } from "../../commands/client/Shells.ts"
import { folder } from "../../commands/SlipwayProcess.ts"
import * as MachinesProgram from "./MachinesProgram.ts"

const lacking = Bubblewrap.absent ?? noScript
const inBoxes = "opens, leaves and finds again terminals in boxes of bubblewrap"
if (lacking === undefined) it.live(inBoxes, () => story("bubblewrap"))
else it.skip(`${inBoxes} (${lacking})`)

const absent = lacking ?? (Bubblewrap.isRoot ? undefined : "needs root for machines of bubblewrap")
const inMachines = "opens, leaves and finds again terminals in machines with a runner"
if (absent === undefined) {
  it.live(inMachines, () =>
    Effect.gen(function*() {
      const at = yield* folder
      const { program } = yield* MachinesProgram.make(at, "bubblewrap", MachinesProgram.filtersIn(at))
      yield* story("runner", { SLIPWAY_RUNNER_MACHINES: program })
    }).pipe(Effect.scoped))
} else it.skip(`${inMachines} (${absent})`)
