package cli

import (
	"reflect"
	"testing"
	"time"

	shoal "shoal/sdk/go"
)

func TestParseRule(t *testing.T) {
	for text, want := range map[string]shoal.LifecycleRule{
		"idle=10m:stop":                         {On: "idle", AfterSeconds: 600, Action: "stop"},
		"age=7d:delete":                         {On: "age", AfterSeconds: 7 * 24 * 3600, Action: "delete"},
		"deadline@2027-01-31T18:00:00Z:delete":  {On: "deadline", At: time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC), Action: "delete"},
		"deadline@2027-01-31T18:00+01:00:stop":  {},
		"time_in_state=7d,state=stopped:delete": {On: "time_in_state", AfterSeconds: 7 * 24 * 3600, State: "stopped", Action: "delete"},
		"age=8h,state=running:stop":             {On: "age", AfterSeconds: 8 * 3600, State: "running", Action: "stop"}, // the server says what is wrong
		"idle=10m:":                             {On: "idle", AfterSeconds: 600},                                       // so it does here
		"":                                      {},
		"idle":                                  {},
		"idle:stop":                             {},
		"idle=:stop":                            {},
		"idle=-3m:stop":                         {},
		"idle=10:stop":                          {},
		"nap=10m:stop":                          {},
		"deadline@1h:stop":                      {},
		"deadline@soon:stop":                    {},
		"deadline=1h:stop":                      {},
		"age@2027-01-31:stop":                   {},
		"age=1h,stopped:delete":                 {},
		"age=1h,state=:delete":                  {},
		"age=1h,state=a,state=b:delete":         {},
	} {
		got, err := parseRule(text)
		if (err != nil) != (want.On == "") {
			t.Errorf("%q: %v", text, err)
		}
		if err == nil && (!got.At.Equal(want.At) || !reflect.DeepEqual(withoutTime(got), withoutTime(want))) {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}

func withoutTime(r shoal.LifecycleRule) shoal.LifecycleRule {
	r.At = time.Time{}
	return r
}
