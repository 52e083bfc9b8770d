// libzero: train libtorch models with ZeRO. Brings in the whole public API.
#pragma once

#include <zero/checkpoint.h>
#include <zero/communicator.h>
#include <zero/config.h>
#include <zero/engine.h>
#include <zero/error.h>
#include <zero/local.h>
#include <zero/optimizer.h>
#include <zero/sampler.h>
#include <zero/version.h>
#include <zero/world.h>
