// SPDX-License-Identifier: MIT
#include "profile/queries/caused_metrics.h"
#include "profile/profile.h"
#include <string.h>

const struct caused_metrics caused_metrics[CAUSED_EVENTS] = {
    {.event = "io",
     .source = PROFILE_IO_SOURCE,
     .count = LIVE_IO_VALUES,
     .metrics =
         {
             [LIVE_IO_BYTES] = {"io", "bytes"},
             [LIVE_IO_READ] = {"read", "bytes"},
             [LIVE_IO_WRITTEN] = {"written", "bytes"},
             [LIVE_IO_OPERATIONS] = {"io-ops", "operations"},
             [LIVE_IO_NS] = {"io-time", "ns"},
         }},
    {.event = "lock",
     .source = PROFILE_LOCK_SOURCE,
     .count = LIVE_LOCK_VALUES,
     .metrics =
         {
             [LIVE_LOCK_NS] = {"lock", "ns"},
             [LIVE_LOCK_CONTENDED] = {"contended", "operations"},
             [LIVE_LOCK_ACQUIRED] = {"acquired", "operations"},
             [LIVE_LOCK_BLAME] = {"blame", "ns"},
             [LIVE_SYNC_NS] = {"sync", "ns"},
             [LIVE_SYNCS] = {"syncs", "operations"},
         }},
    {.event = "offcpu",
     .source = PROFILE_OFFCPU_SOURCE,
     .count = LIVE_OFFCPU_VALUES,
     .metrics =
         {
             [LIVE_OFFCPU_NS] = {"offcpu", "ns"},
             [LIVE_OFFCPU_LOCK] = {"offcpu-lock", "ns"},
             [LIVE_OFFCPU_IO] = {"offcpu-io", "ns"},
             [LIVE_OFFCPU_SLEEP] = {"offcpu-sleep", "ns"},
             [LIVE_OFFCPU_QUEUE] = {"offcpu-queue", "ns"},
             [LIVE_OFFCPU_WAITS] = {"waits", "waits"},
         }},
};

const struct caused_metrics *caused_metrics_of(const char *event)
{
    for (unsigned i = 0; i < CAUSED_EVENTS; i++)
        if (strcmp(caused_metrics[i].event, event) == 0)
            return &caused_metrics[i];
    return NULL;
}
