import { register } from "@slipway/testing/runners/Vitest"
import { Effect, Layer } from "effect"
import * as LfsSuite from "../testing/LfsSuite.ts"
import { temporaryFolder } from "../testing/Repositories.ts"
import * as Trees from "../testing/Trees.ts"

const layerOf = (options: Omit<Trees.Options, "directory">) =>
  Layer.unwrap(Effect.map(temporaryFolder, (directory) => Trees.layer({ directory, ...options })))

register(LfsSuite.suite("git", layerOf, Trees.workspace, { hasBoxes: false }))
