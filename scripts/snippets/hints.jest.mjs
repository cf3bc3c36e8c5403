/** A contract suite of the domain as tests of Jest. */
import { layer } from "@slipway/domain/memory/HintsMemory"
import { suite } from "@slipway/domain/testing/HintsContract"
import { register } from "@slipway/domain/testing/runners/Jest"

register(suite("memory", layer))
