/** A contract suite of the domain as tests of Jest. */
import { layer } from "@slipway/domain/memory/store/HintsMemory"
import { suite } from "@slipway/testing/contracts/store/HintsContract"
import { register } from "@slipway/testing/runners/Jest"

register(suite("memory", layer))
