/** The stores on one file that processes follow each other on; one dies when its connection is cut in the midst of a transaction. */
import * as DurabilityContract from "@slipway/testing/contracts/sandbox/DurabilityContract"
import { Effect, Layer } from "effect"
import path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { folder, over } from "./Fixture.ts"

/** A connection that is closed after so many more writes. What it had begun is not committed, as when its process is killed. */
class Mortal extends DatabaseSync {
  writes = Number.POSITIVE_INFINITY
  override prepare(sql: string) {
    const statement = super.prepare(sql)
    const run: (parameters: Record<string, never>) => ReturnType<typeof statement.run> = statement.run.bind(statement)
    statement.run = (parameters: unknown) => {
      const done = run(parameters as Record<string, never>)
      if (--this.writes === 0) {
        this.close()
        throw new Error("killed")
      }
      return done
    }
    return statement
  }
}

const storage = Layer.effect(
  DurabilityContract.Storage,
  Effect.map(folder, (folder) =>
    DurabilityContract.Storage.of({
      start: Effect.suspend(() => {
        let connection: Mortal | undefined
        const layer = over(path.join(folder, "stores.db"), (file) => connection = new Mortal(file))
        return Effect.map(Layer.build(layer), (stores) => ({
          stores,
          killAtWrite: (n) =>
            Effect.sync(() => {
              if (connection !== undefined) connection.writes = n
            })
        }))
      })
    }))
)

export const suites = () => [DurabilityContract.suite("sqlite", storage)]
