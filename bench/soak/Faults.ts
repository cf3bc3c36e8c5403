/** Faults of the processes while people work. One http process and one worker are spared, so that their memory can be watched. */
import { setTimeout as sleep } from "node:timers/promises"
import type { Client } from "pg"
import type { Random } from "../../packages/slipway/testing/Random.ts"
import type { Process } from "../../packages/slipway/testing/ServiceCluster.ts"

export interface Fault {
  readonly name: string
  readonly do: () => Promise<void>
}

/** Longer than a lease (30 s): when it thaws, others have taken its sandboxes. */
const FREEZE_MILLIS = 40_000

export const all = (http: Process, workers: ReadonlyArray<Process>, database: Client, random: Random): ReadonlyArray<Fault> => {
  /** Each worker suffers one thing at a time. */
  const busy = new Set<Process>()
  const toOne = (name: string, act: (worker: Process) => Promise<void>): Fault => ({
    name,
    do: async () => {
      const free = workers.filter((worker) => !busy.has(worker))
      if (free.length === 0) return
      const worker = random.pick(free)
      busy.add(worker)
      try {
        await act(worker)
      } finally {
        busy.delete(worker)
      }
    }
  })
  let httpBusy = false
  const toHttp = (name: string, act: () => Promise<void>): Fault => ({
    name,
    do: async () => {
      if (httpBusy) return
      httpBusy = true
      try {
        await act()
      } finally {
        httpBusy = false
      }
    }
  })
  return [
    toHttp("an http process was killed", async () => {
      await http.kill()
      await sleep(random.below(2_000))
      await http.start()
    }),
    toHttp("an http process was restarted", async () => {
      await http.stop()
      await http.start()
    }),
    toOne("a worker was killed", async (worker) => {
      await worker.kill()
      await sleep(random.below(2_000))
      await worker.start()
    }),
    toOne("a worker was drained and restarted", async (worker) => {
      await worker.stop()
      await worker.start()
    }),
    toOne("a worker was frozen for a moment", async (worker) => {
      worker.freeze()
      await sleep(1_000 + random.below(4_000))
      worker.thaw()
    }),
    toOne("a worker was frozen for longer than its leases", async (worker) => {
      worker.freeze()
      await sleep(FREEZE_MILLIS)
      worker.thaw()
    }),
    toOne("a machine was lost with its disk", async (worker) => {
      await worker.lose()
      await worker.start()
    }),
    {
      name: "all connections to the database were cut",
      do: async () => {
        await database.query(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
      }
    }
  ]
}
