import { suite } from "@slipway/domain/testing/SourceHostContract"
import { fixture, layer } from "./Repositories.ts"

export const suites = () => [suite("memory", layer, fixture)]
