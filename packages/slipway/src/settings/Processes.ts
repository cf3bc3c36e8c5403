/** What each process of a Slipway does. */
import * as PrivateAddress from "@slipway/adapters/worker-link/PrivateAddress"
import { Effect } from "effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

export const settings = {
  role: Setting.withDefault({
    name: "SLIPWAY_ROLE",
    type: Type.oneOf(["all", "http", "worker"]),
    default: "all",
    about: "What this process does: http, worker, or all.",
    role: "all"
  }),
  workerAddress: Setting.optional({
    name: "SLIPWAY_WORKER_ADDRESS",
    type: Type.parsed("a host and a port, such as 10.0.0.5:4001", (value) => PrivateAddress.parse(value) !== null),
    about: "Where a worker serves its files to the other processes on DATABASE_URL, as host:port of a private network. " +
      "Without it, a free port of 127.0.0.1.",
    role: "worker"
  }),
  workerSlots: Setting.withDefault({
    name: "SLIPWAY_WORKER_SLOTS",
    type: Type.integer(1, 1000),
    default: "8",
    about: "Sandboxes this process works for at once.",
    role: "worker"
  })
}

/** `workerAddress` is `null` for a free port of loopback. */
export const load = Effect.map(
  Setting.values(settings),
  ({ workerAddress, ...loaded }) => ({ ...loaded, workerAddress: PrivateAddress.parse(workerAddress ?? "") })
)
