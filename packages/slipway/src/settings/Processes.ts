/** The roles of processes, and their addresses. */
import * as PrivateAddress from "@slipway/worker-link/PrivateAddress"
import * as Effect from "effect/Effect"
import * as Setting from "./Setting.ts"
import * as Type from "./Type.ts"

const privateAddress = (example: string) =>
  Type.parsed(`a host and a port, such as ${example}`, (value) => PrivateAddress.parse(value) !== null)

export const settings = {
  role: Setting.withDefault({
    name: "SLIPWAY_ROLE",
    type: Type.oneOf(["all", "http", "worker"]),
    default: "all",
    about: "Role of this process: http, worker, or all.",
    role: "all"
  }),
  workerAddress: Setting.optional({
    name: "SLIPWAY_WORKER_ADDRESS",
    type: privateAddress("10.0.0.5:4001"),
    about: "Where a worker serves files to other processes, /healthz and /readyz: host:port of a private network. Without it, a free " +
      "port of 127.0.0.1.",
    role: "worker"
  }),
  metricsAddress: Setting.optional({
    name: "SLIPWAY_METRICS_ADDRESS",
    type: privateAddress("127.0.0.1:4002"),
    about: "Where a process with SLIPWAY_ROLE=worker answers /metrics, /healthz and /readyz without a key: host:port of loopback or a " +
      "private network. Without it, it serves no metrics; other processes serve theirs with the API.",
    role: "worker"
  }),
  workerSlots: Setting.optional({
    name: "SLIPWAY_WORKER_SLOTS",
    type: Type.integer(1, 1000),
    about: "Agents of this process that may work or boot at once. Without it, one for each GiB of memory, 4 to 32. Four times as many " +
      "may be alive, waiting ones included.",
    role: "worker"
  }),
  drain: Setting.withDefault({
    name: "SLIPWAY_DRAIN_SECONDS",
    type: Type.seconds(0, 86_400),
    default: "8",
    about: "How long turns may run after this process is asked to end; then they are interrupted.",
    role: "worker"
  })
}

/** `workerAddress` is `null` for a free port of loopback, `metricsAddress` is `null` for no address. */
export const load = Effect.map(
  Setting.values(settings),
  ({ metricsAddress, workerAddress, ...loaded }) => ({
    ...loaded,
    metricsAddress: PrivateAddress.parse(metricsAddress ?? ""),
    workerAddress: PrivateAddress.parse(workerAddress ?? "")
  })
)

/** Logs of a process. */
export const logging = {
  format: Setting.withDefault({
    name: "SLIPWAY_LOG_FORMAT",
    type: Type.oneOf(["auto", "pretty", "json"]),
    default: "auto",
    about: "Format of logs on standard error: pretty, or json with one object a line. auto: pretty on a terminal, else json.",
    role: "all"
  }),
  level: Setting.optional({
    name: "SLIPWAY_LOG_LEVEL",
    type: Type.oneOf(["debug", "info", "warning", "error"]),
    about: "Lowest level that is logged: debug, info, warning or error. Without it, info by the service and warning by other commands.",
    role: "all"
  })
}

/** `level` is `null` if each command uses its own. */
export const loadLogging = Setting.values(logging)
