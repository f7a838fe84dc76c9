#pragma once

#define GAIN 2.0f
