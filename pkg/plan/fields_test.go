package plan

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
)

// field is one value, at any depth, that a user can set.
type field struct {
	name string
	// text: the field is a string.
	text bool
	// to sets the field in the section that it is part of: to the text, or to something else that is not empty.
	to func(section reflect.Value, text string)
}

// fields returns all fields of a type of the API, so that no test of all of them forgets one that is added later.
func fields(of reflect.Type, name string) []field {
	set := func(value any) []field {
		return []field{{name: name, to: func(v reflect.Value, _ string) { v.Set(reflect.ValueOf(value).Convert(of)) }}}
	}
	switch of {
	case reflect.TypeFor[resource.Quantity]():
		return set(resource.MustParse("1500m"))
	case reflect.TypeFor[runtime.RawExtension]():
		return set(runtime.RawExtension{Raw: []byte(`{"hostNetwork":true}`)})
	case reflect.TypeFor[corev1.ResourceList]():
		return set(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1500m")})
	}
	switch of.Kind() {
	case reflect.String:
		return []field{{name: name, text: true, to: func(v reflect.Value, text string) { v.SetString(text) }}}
	case reflect.Bool:
		return set(true)
	case reflect.Int32, reflect.Int64:
		return set(7)
	case reflect.Pointer:
		return within(fields(of.Elem(), name), func(v reflect.Value) reflect.Value {
			v.Set(reflect.New(of.Elem()))
			return v.Elem()
		})
	case reflect.Slice:
		return within(fields(of.Elem(), name+"[0]"), func(v reflect.Value) reflect.Value {
			v.Set(reflect.MakeSlice(of, 1, 1))
			return v.Index(0)
		})
	case reflect.Map:
		return []field{{name: name + "[key]", text: of.Elem().Kind() == reflect.String, to: func(v reflect.Value, text string) {
			v.Set(reflect.MakeMap(of))
			v.SetMapIndex(reflect.ValueOf("key").Convert(of.Key()), reflect.ValueOf(text).Convert(of.Elem()))
		}}}
	case reflect.Struct:
		var all []field
		for i := range of.NumField() {
			all = append(all, within(fields(of.Field(i).Type, name+"."+of.Field(i).Name), func(v reflect.Value) reflect.Value { return v.Field(i) })...)
		}
		return all
	}
	panic(fmt.Sprintf("%s: fields does not know what to set a %s to", name, of))
}

func within(inner []field, enter func(reflect.Value) reflect.Value) []field {
	for i, f := range inner {
		inner[i].to = func(v reflect.Value, text string) { f.to(enter(v), text) }
	}
	return inner
}
